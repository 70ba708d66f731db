package main

import (
	"fmt"
	"io"
)

// found is a technique at work.
type found struct {
	technique
	before *trace
	after  []*trace // with, then also
}

// run runs all setups of a technique dry.
func (t technique) run() (f found, err error) {
	f.technique = t
	if f.before, err = t.plain.run(); err != nil {
		return f, fmt.Errorf("techniques: %s, plain: %w", t.name, err)
	}
	for _, c := range append([]variant{{t.name, t.with}}, t.also...) {
		tr, err := c.run()
		if err != nil {
			return f, fmt.Errorf("techniques: %s, %s: %w", t.name, c.name, err)
		}
		f.after = append(f.after, tr)
	}
	return f, nil
}

// check returns an error for the first formula that is not what the device counted.
func (f found) check() error {
	for _, c := range f.claims(f.before, f.after) {
		if c.worked != c.counted {
			return fmt.Errorf("techniques: %s: %s: %s is %d: the device counted %d", f.name, c.what, c.formula, c.worked, c.counted)
		}
	}
	return nil
}

// show writes what docs/techniques.md has of a technique.
func (f found) show(out io.Writer) {
	peak := sum(f.before.peak)
	fmt.Fprintf(out, "| | peak, bytes | of plain | arena |\n|---|---|---|---|\n")
	fmt.Fprintf(out, "| plain | %s | 100%% | %s |\n", commas(peak), commas(f.before.arena))
	for i, tr := range f.after {
		name := "with it"
		switch {
		case i > 0:
			name = f.also[i-1].name
		case len(f.also) > 0:
			name = first[f.name]
		}
		fmt.Fprintf(out, "| %s | %s | %.0f%% | %s |\n", name, commas(sum(tr.peak)), 100*float64(sum(tr.peak))/float64(peak), commas(tr.fits()))
	}
	claims := f.claims(f.before, f.after)
	if len(claims) == 0 {
		return
	}
	fmt.Fprintf(out, "\n| bytes | formula | |\n|---|---|---|\n")
	for _, c := range claims {
		fmt.Fprintf(out, "| %s | %s | %s |\n", c.what, c.formula, commas(c.worked))
	}
}

// first names the setup that is drawn where there are several.
var first = map[string]string{"recompute": "per block", "optimizers": "SGD"}

// commas is n in groups of three digits.
func commas(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
