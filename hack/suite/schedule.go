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

// schedule runs jobs in their order, as many at a time as fit into so many tenths of a
// processor, and one at least. The error joins those of all jobs.
func schedule(jobs []job, tenths int) error {
	type ended struct {
		takes int
		err   error
	}
	taken, running, end := 0, 0, make(chan ended)
	var errs []error
	await := func() {
		e := <-end
		taken, running, errs = taken-e.takes, running-1, append(errs, e.err)
	}
	for _, j := range jobs {
		for running > 0 && taken+j.takes > tenths {
			await()
		}
		taken, running = taken+j.takes, running+1
		go func() { end <- ended{j.takes, j.run()} }()
	}
	for running > 0 {
		await()
	}
	return errors.Join(errs...)
}
