package optim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// field is a hyper-parameter: where its number, or its flag, is.
type field struct {
	name string
	num  *float64
	flag *bool
}

func (f field) get() float64 {
	switch {
	case f.num != nil:
		return *f.num
	case *f.flag:
		return 1
	}
	return 0
}

func (f field) set(v float64) {
	if f.num != nil {
		*f.num = v
		return
	}
	*f.flag = v != 0
}

// hyper lists cfg's hyper-parameters by name, flags as 0 or 1.
func hyper(cfg config) map[string]float64 {
	h := map[string]float64{}
	for _, f := range cfg.fields() {
		h[f.name] = f.get()
	}
	return h
}

// withHyper is a copy of cfg with the hyper-parameters of h, which must name them all and no others.
func withHyper(cfg config, h map[string]float64) (config, error) {
	cfg = cfg.clone()
	fields := cfg.fields()
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
		v, ok := h[f.name]
		if !ok {
			return nil, fmt.Errorf("the hyper-parameter %s is missing", f.name)
		}
		f.set(v)
	}
	if err := onlyNamed(h, names); err != nil {
		return nil, fmt.Errorf("hyper-parameter %w", err)
	}
	return cfg, cfg.check()
}

// onlyNamed refuses a key that is not one of names.
func onlyNamed[V any](m map[string]V, names []string) error {
	known := map[string]bool{}
	for _, n := range names {
		known[n] = true
	}
	for _, k := range sortedKeys(m) {
		if !known[k] {
			return fmt.Errorf("%q is unknown: want %s", k, strings.Join(names, ", "))
		}
	}
	return nil
}

// sortedKeys are the keys of m in order, so that what is done for each is done in one order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// notNegative refuses NaN, infinities and numbers below 0.
func notNegative(name string, v float64) error {
	if v >= 0 && v <= math.MaxFloat64 {
		return nil
	}
	return fmt.Errorf("%s is %v: want a finite number, 0 or more", name, v)
}

// positive refuses all but finite numbers above 0.
func positive(name string, v float64) error {
	if v > 0 && v <= math.MaxFloat64 {
		return nil
	}
	return fmt.Errorf("%s is %v: want a finite number above 0", name, v)
}

// inUnit refuses what is not in [0, 1).
func inUnit(name string, v float64) error {
	if v >= 0 && v < 1 {
		return nil
	}
	return fmt.Errorf("%s is %v: want 0 or more and less than 1", name, v)
}

// first is the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// failIf is an error of that text if bad.
func failIf(bad bool, text string) error {
	if bad {
		return errors.New(text)
	}
	return nil
}
