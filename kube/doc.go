// Package kube says what the state of a pod, node or service means to Squall, how a
// finalizer is taken off, and lets informers see soon that an API server is
// back. The bridge and the worker use the same words, so that they cannot
// disagree about a pod. It calls no API server itself.
package kube
