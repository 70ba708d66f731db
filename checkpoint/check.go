package checkpoint

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Check is how closely a second run is compared with the first (C5). Op, scope and spec of each saved tensor are compared
// always.
type Check uint8

const (
	// CheckSample compares also 16 words of each tensor's values, spread over it, and of each input's: enough to see a
	// function that depends on a counter or on random numbers of its own, at the cost of a cheap op.
	CheckSample Check = iota
	// CheckMetadata compares no values.
	CheckMetadata
	// CheckValues compares a hash of all values. It reads what it hashes once in each run.
	CheckValues
)

// remedy ends the errors of C5.
const remedy = "the function must do the same each time: no counters, no state that grows, no random numbers but the scope's"

var seed = maphash.MakeSeed()

// sum is a fingerprint of a storage's bytes; 0 if there are none, as in a dry run.
func (k Check) sum(b []byte) uint64 {
	switch {
	case len(b) == 0 || k == CheckMetadata:
		return 0
	case k == CheckValues:
		return maphash.Bytes(seed, b)
	case len(b) < 8*samples:
		return fnv(fnvStart, b)
	}
	h := uint64(fnvStart)
	step := (len(b) - 8) / (samples - 1)
	for i := range samples {
		h = (h ^ binary.LittleEndian.Uint64(b[i*step:])) * fnvPrime
		h ^= h >> 29
	}
	return h
}

const (
	samples  = 16
	fnvStart = 14695981039346656037
	fnvPrime = 1099511628211
)

func fnv(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// compare is C5 for what the second run saves at place p.
func (r *replay) compare(p *place, t *tensor.Tensor, at memory.Site) error {
	fr := r.fr
	was, is := fr.relative(p.at, fr.path), fr.relative(at, r.path)
	if was != is || !p.spec.Equal(t.Spec()) {
		return fr.errorf("recomputation differs from the forward pass at saved tensor %d: it was %s of %s, and is %s of %s: %s", p.i, p.spec, was, t.Spec(), is, remedy)
	}
	if p.action == Recompute && p.sum != fr.check.sum(t.Buffer().Bytes()) {
		return fr.errorf("recomputation gives other values than the forward pass, first at saved tensor %d, %s of %s: %s", p.i, t.Spec(), is, remedy)
	}
	return nil
}

// relative is at with its scope as seen from the region, whose own path is given.
func (fr *frame) relative(at memory.Site, path string) memory.Site {
	at.Scope = strings.TrimPrefix(strings.TrimPrefix(at.Scope, path), "/")
	return at
}

// errorf names the region.
func (fr *frame) errorf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if fr.path == "" {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return fmt.Errorf("checkpoint: %s: %w", fr.path, err)
}
