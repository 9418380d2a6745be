// Package test holds the rules that the code as a whole must keep, as tests: which
// packages may import which, how long the functions people read first may be, and
// that every rule of docs/rules.md names tests that exist.
package test
