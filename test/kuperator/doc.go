// Package kuperator stands in for Kuperator in tests. It moves the labels of
// PodOpsLifecycle on pods as version 0.7.1 was observed to do, with its traps. One
// write of the real one is one write here.
package kuperator
