package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// job is what a guest has to do. It is a file beside the guest's program.
type job struct {
	// Results is the serial line that what the tests print goes to.
	Results string
	// Shared is true where the files of the machine that runs the guest are
	// mounted by 9p, false where they are there from the beginning.
	Shared bool
	// Early are files of modules that are loaded before the root is made,
	// Modules after that, each in this order.
	Early, Modules []string
	Env            []string
	Runs           []run
}

// run is a test program.
type run struct {
	Package, Binary, Dir string
	Args                 []string
}

const jobFile = "job.json"

func (j job) write(dir string) error {
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, jobFile), data, 0o644)
}

func readJob(dir string) (j job, err error) {
	data, err := os.ReadFile(filepath.Join(dir, jobFile))
	if err != nil {
		return job{}, err
	}
	if err := json.Unmarshal(data, &j); err != nil {
		return job{}, fmt.Errorf("read %s: %w", jobFile, err)
	}
	return j, nil
}
