// Package bench measures what disruptions cost, beside the least that the same
// API server can do for as many pods: time, API calls, Temporal's history,
// processor and memory of the programs. It runs in a world of package world and,
// for what only a real kubelet can show, on a cluster with Squall installed.
//
// `make bench` runs it; docs/bench.md holds and explains the figures. With few
// targets it runs with all tests, so that it does not rot.
package bench
