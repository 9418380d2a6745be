// Package matrix is the crash matrix of the control plane, after Sieve
// (OSDI'22): whatever single step of worker or bridge is cut short, a
// disruption ends as it would have without.
//
// A reference run of a workload enumerates all calls with which the two programs
// change the API server's or Temporal's state, every kind of watch event they get,
// and a person's writes to objects that they cache. Then the workload runs again for
// each of these points:
//
//   - before: the program is killed (SIGKILL) instead of making the call;
//   - after: the program is killed when the server has answered, before the answer arrives;
//   - stop: the program is asked to end (SIGTERM) as it makes the call, and must end well;
//   - stale: a program is killed after a write, and for two seconds its next
//     life sees the cluster as it was before that write;
//   - drop: a watch event never reaches the program; a second later the watch breaks
//     in the way that makes a client list again.
//
// The test restarts a program as soon as it has ended. The end is compared with the reference:
// the objects that are left in the API, status, events, the workflow's runs and result, and the
// pods that the played kubelets ran. Programs and servers are real; between them are proxies in
// the test, of which the programs know nothing. The test also plays the controllers that replace
// deleted pods, release deleted claims, and write EndpointSlices and budgets. The API server calls
// the on-init webhook of the real bridge, by URL and without a proxy; kubelets start the pods
// that wait.
//
// A run that differs fails its point at once. The one exception is a run that
// lacks events, each of which its worker gave up after the time that it has for
// one (docs/events.md), and is as the reference otherwise: it is repeated, once.
// The report counts such runs, and more than one of a hundred fail the test.
//
// For many targets an activity of its own creates the chaos pods, and the proxy adds to
// each of Temporal's replies that the history is long enough for a new run. Of points that
// differ in the target alone two are tried, chosen by the seed: the report has both numbers.
// EmergencyStops, DisruptionPolicies and nodes are of the whole cluster; a proxy shows the
// programs of a slot none but the slot's own, and the one node of all slots.
//
// Stale reads are answers an API server may give: a list at an older resource
// version, which it serves itself, to a client that takes any version, and a
// watch that lags. A read that asks for the newest is never stale. After each write to an
// object that a program caches, that program sees the past: pods, nodes, Disruptions and
// the objects that begin them, EmergencyStops, DisruptionPolicies, PodDisruptionBudgets,
// EndpointSlices, Deployments, and the records in which disruptions claim targets.
// Secrets and webhook configurations are read at their newest version. Notifications have
// no workload: they are sent outside of both servers.
package matrix
