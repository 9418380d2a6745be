package console

import "time"

const (
	// completionTimeout bounds how long a shell waits for names while a person types.
	completionTimeout = 3 * time.Second
	// DialTimeout bounds the wait for Temporal's frontend.
	DialTimeout = 10 * time.Second
	// Refresh is how often a line on a terminal is rewritten, for its clock.
	Refresh = time.Second
)
