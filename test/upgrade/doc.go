// Package upgrade shows that a disruption which an older worker began is
// finished by today's (docs/upgrades.md). The old worker is built from its
// commit: the state before the last change of anything the worker is made of,
// or the commit in workflows/testdata/compatible-since when that is newer.
// SQUALL_OLD_WORKER names another one.
package upgrade
