package main

import "time"

const (
	// completionTimeout bounds what a shell waits for names: a person types.
	completionTimeout = 3 * time.Second
	// answerTimeout bounds the wait for a workflow's answer, which any worker
	// gives within a second; without a worker none comes.
	answerTimeout = 30 * time.Second
	// dialTimeout bounds the wait for Temporal's frontend.
	dialTimeout = 10 * time.Second
	// reportTimeout bounds the last look at the disruptions of a scenario, for a report.
	reportTimeout = 10 * time.Second
	// refresh is how often a line on a terminal is written anew, for its clock.
	refresh = time.Second
)
