package main

import "time"

const (
	// completionTimeout bounds how long a shell waits for names while a person types.
	completionTimeout = 3 * time.Second
	// answerTimeout bounds the wait for a workflow's answer, which any worker gives within
	// a second; without a worker there is none.
	answerTimeout = 30 * time.Second
	// dialTimeout bounds the wait for Temporal's frontend.
	dialTimeout = 10 * time.Second
	// reportTimeout bounds the last read of the disruptions of a scenario, for a report.
	reportTimeout = 10 * time.Second
	// refresh is how often a line on a terminal is rewritten, for its clock.
	refresh = time.Second
)
