// Package test holds the rules that the code as a whole must keep, as tests:
// who may import whom, how long the functions people read first may be, and
// that every rule of the lifecycle is proved somewhere.
package test
