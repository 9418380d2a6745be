// Package ui proves with a real browser, on a real cluster with Squall
// installed, that a person who knows nothing but the inbox link finds a stuck
// disruption in Temporal's web interface, understands it and resolves it there.
//
//	go test ./... -args -shots DIRECTORY
//
// It is a module of its own, so that the product knows nothing of browsers.
package ui
