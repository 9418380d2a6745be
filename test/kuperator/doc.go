// Package kuperator stands in for Kuperator in tests: it moves the labels of
// PodOpsLifecycle on pods as the real one, v0.7.1, was seen to do it, with its traps.
// What it does in one write the real one does in one write, too.
package kuperator
