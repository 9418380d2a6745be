// Package main is the program injector: it disturbs one target in one way, on
// the target's node, and promises to take off what it put on when it is asked
// to, or at its deadline at the latest.
package main

func main() {}
