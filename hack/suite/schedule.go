package main

import "errors"

// processors is what may run at a time, in tenths of a processor. The machine of
// CI has two: a third test beside them would take what the first two measure.
const processors = 20

// job is work that takes a share of the processors, in tenths.
type job struct {
	name  string
	takes int
	run   func() error
}

// schedule runs jobs in their order, as many at a time as the processors allow.
// A job that takes all of them runs alone. The error joins those of all jobs.
func schedule(jobs []job) error {
	type ended struct {
		takes int
		err   error
	}
	free, running, end := processors, 0, make(chan ended)
	var errs []error
	await := func() {
		e := <-end
		free, running, errs = free+e.takes, running-1, append(errs, e.err)
	}
	for _, j := range jobs {
		takes := min(j.takes, processors)
		for free < takes {
			await()
		}
		free, running = free-takes, running+1
		go func() { end <- ended{takes, j.run()} }()
	}
	for running > 0 {
		await()
	}
	return errors.Join(errs...)
}
