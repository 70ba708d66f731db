package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// quote is a line that repeats what another file says:
//
//	> per block 1.21 ([design.md](design.md))
var quote = regexp.MustCompile(`(?m)^> (.*) \(\[[^\]]*\]\(([^)#]*)[^)]*\)\)$`)

// quotes returns an error for the first quote of a text at path that is not in the file that it names, line breaks aside.
func quotes(path, text string) error {
	for _, m := range quote.FindAllStringSubmatch(text, -1) {
		source, err := os.ReadFile(filepath.Join(filepath.Dir(path), m[2]))
		if err != nil {
			return err
		}
		if !strings.Contains(flat(string(source)), flat(m[1])) {
			return fmt.Errorf("%q is not in %s", m[1], m[2])
		}
	}
	return nil
}

// flat is a text on one line.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }
