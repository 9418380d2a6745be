// Package survival takes away what disruptions live on: Temporal, the worker, the
// bridge, their workflow, their finalizer, all records of them. They end as they
// should all the same. It runs in a world of package world, and writes to nothing
// but a temporary directory, unless asked with -record for a history to replay.
package survival
