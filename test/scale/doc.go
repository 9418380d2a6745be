// Package scale holds, as tests, what disruptions of many targets may cost: in
// history, in API calls, and in time beside the least that the same API server
// can do. They run in a world of package world, and write to nothing but a
// temporary directory, unless asked with -record for a history to replay.
package scale
