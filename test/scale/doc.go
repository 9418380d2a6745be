// Package scale holds, as tests, what disruptions of many targets may cost: in
// history, in API calls, and in time beside the least that the same API server
// can do. Everything is real (API server, Temporal, worker, bridge) but for the
// kubelets, whose part the test plays. It writes to nothing but a temporary
// directory, unless it is asked with -record for a history to replay.
package scale
