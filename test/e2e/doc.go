// Package e2e proves on a real cluster with Squall installed what no smaller
// test can: that containers feel a disruption and recover, that nodes are left
// as they were, and that every rule of the lifecycle holds as far as a user can
// see it. It knows the API types and talks to the cluster, as a user does.
//
//	go test -tags e2e ./test/e2e
//
// Tests that hurt Squall itself run first, one after the other; all others run
// at once, each in a namespace of its own.
package e2e
