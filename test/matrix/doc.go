// Package matrix is the crash matrix of the control plane, after Sieve
// (OSDI'22): whatever single step of worker or bridge is cut short, a
// disruption ends as it would have without.
//
// A reference run of a workload enumerates all that the two programs write to
// the API server and all they tell Temporal, and every kind of watch event they
// get. Then the workload runs again for each of these points:
//
//   - before: the program is killed (SIGKILL) instead of making the call;
//   - after: it is killed when the server has answered, before it hears of it;
//   - stop: it is asked to end (SIGTERM) as it makes the call, and must end well;
//   - stale: a program is killed after a write, and for two seconds its next
//     life sees the cluster as it was before that write;
//   - drop: a watch event never reaches it; a second later the watch breaks
//     in the way that makes a client list again.
//
// It is started again as soon as it has ended. The end is compared with the reference: what is
// left in the API, status, events, the workflow's runs and result, and what the
// played kubelets ran. Programs and servers are real; between them are proxies
// in the test, so that the programs know nothing of it.
//
// A run that differs fails its point at once. The one exception is a run that
// lacks events, each of which its worker gave up after the time that it has for
// one (docs/events.md), and is as the reference otherwise: it is repeated, once.
// The report counts such runs, and more than one of a hundred fail the test.
//
// For many targets the workflow has chaos pods made by an activity of its own, and
// Temporal tells it at every step that its history is long enough for a new run. Of
// points that differ in the target alone two are tried, chosen by the seed: the
// report says how many of how many. An EmergencyStop is of the whole
// cluster; a proxy shows the programs of a slot none but the slot's own.
//
// Stale reads are answers an API server may give: a list at an older resource
// version, which it serves itself, to a client that takes any version, and a
// watch that lags. A read that asks for the newest is never stale.
package matrix
