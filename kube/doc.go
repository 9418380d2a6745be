// Package kube defines what the state of a pod, node or service means to Squall, how to
// remove a finalizer, and how informers soon notice that an API server is back.
// Controller and worker use the same definitions, so that they cannot disagree about a
// pod. It has no client of its own.
package kube
