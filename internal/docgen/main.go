// Command docgen writes docs/saved.md: what each op of package ops keeps for backward, from the very rules that the
// engine follows. Run it with go generate ./ops; a test fails when the file is not what it gives.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docgen path/to/saved.md")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(saved()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}
