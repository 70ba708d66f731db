package main

import (
	"regexp"
	"slices"
	"strings"
)

// measured are the heads of columns that differ from run to run, or from machine to machine.
var measured = []string{"rss", "ms/step", "ms/image", "loss", "accuracy", "stall"}

// machine is how tables name what they ran on.
var machine = regexp.MustCompile(`; \w+, \w+ kernels.*`)

// mask gives a text without what is measured: what is left must be the same in every run, bytes above all.
func mask(text string) string {
	lines := strings.Split(machine.ReplaceAllString(text, ""), "\n")
	for i := 1; i < len(lines); i++ {
		if !isRule(lines[i]) {
			continue
		}
		i = maskTable(lines, i)
	}
	return strings.Join(lines, "\n")
}

// isRule tells whether a line is what stands under the head of a table: "----  -----".
func isRule(line string) bool {
	return strings.HasPrefix(line, "-") && strings.Trim(line, "- ") == ""
}

// maskTable rewrites a table whose rule is line at: columns joined by single spaces, measured ones left out. It gives the
// last line.
func maskTable(lines []string, at int) int {
	spans := regexp.MustCompile("-+").FindAllStringIndex(lines[at], -1)
	head := cells(lines[at-1], spans)
	end := at
	for end+1 < len(lines) && lines[end+1] != "" && !strings.HasPrefix(lines[end+1], "```") {
		end++
	}
	for i := at - 1; i <= end; i++ {
		var left []string
		for c, cell := range cells(lines[i], spans) {
			if !slices.Contains(measured, head[c]) && i != at {
				left = append(left, cell)
			}
		}
		lines[i] = strings.Join(left, " ")
	}
	return end
}

// cells cuts a line at the columns of a rule.
func cells(line string, spans [][]int) (list []string) {
	runes := []rune(line)
	for c, s := range spans {
		from, to := min(s[0], len(runes)), min(s[1], len(runes))
		if c == len(spans)-1 {
			to = len(runes)
		}
		list = append(list, strings.TrimSpace(string(runes[from:to])))
	}
	return list
}
