// Package ui proves with a real browser, on a real cluster with Squall installed,
// that a person who knows nothing but the inbox link finds a stuck disruption in
// Temporal's web interface, understands it and resolves it there.
//
//	go test ./... -args -shots DIRECTORY
//
// The package is a module of its own, so that the product does not depend on
// browsers.
package ui
