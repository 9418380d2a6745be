// Command freeze has the histories that were recorded since the last release stay as
// they are, in the checkout in which it runs: make freeze.
package main

import (
	"fmt"
	"os"

	"github.com/squall-chaos/squall/test/histories"
)

func main() {
	generation, files, err := histories.Freeze(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "freeze:", err)
		os.Exit(1)
	}
	fmt.Printf("generation %d is frozen: %d histories. Recordings go into generation %d. Commit workflows/testdata/histories and test/histories/list.go\n",
		generation, files, generation+1)
}
