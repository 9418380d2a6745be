//go:build !linux

package apiserver

const processesVariable = "SQUALL_TEST_PROCESSES"

func endOrphans(string) int { return 0 }

// leaveNoOrphans does nothing: there are no handles of processes.
func leaveNoOrphans() error { return nil }
