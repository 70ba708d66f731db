package checkpoint

import (
	"fmt"
	"path"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
)

// Action is what a policy decides.
type Action uint8

const (
	Recompute Action = iota // keep nothing: the second run makes it again
	Save                    // keep it as the plain run would: in memory, or by the saver around the region
	Offload                 // give it to the saver of OffloadTo
)

// String names a.
func (a Action) String() string { return [...]string{"recompute", "save", "offload"}[a] }

// Tensor is what a policy is asked about: a storage of the region.
type Tensor struct {
	Rule  *autograd.Rule // of the op that made it; nil: it came from outside, or an in-place op has rewritten it
	Maker memory.Site    // that op and its scope
	Bytes int64
	// Reader is the op whose gradient reads the storage. It is empty when the policy is asked a first time, as the op that
	// made it ends: saving it then spares the second run that op.
	Reader memory.Site
	// Block is the index of the block that the region is, or begins with, in a chain of blocks; 0 for other regions.
	Block int
}

// Policy decides what becomes of a tensor of a region. It is asked in the first run only: once when an op has run, about all
// its outputs together, and once for each storage when a gradient wants it. It must decide by what it is given.
//
// What it saves as a gradient's is never computed again for that gradient's sake. What it saves as an op's outputs, the
// second run takes instead of running the op; it lives until the second run needs it no more, and is given back at once if
// none comes that far.
type Policy func(t Tensor) Action

// Everything keeps what gradients read, as if there were no region.
func Everything(t Tensor) Action {
	if t.Reader.Op != "" {
		return Save
	}
	return Recompute
}

// Nothing keeps nothing but the region's inputs: what a region without a policy does.
func Nothing(Tensor) Action { return Recompute }

// DearOnly keeps the outputs of ops that take long for their bytes (autograd.Rule.Dear: matrix products, attention,
// convolution) and recomputes norms, activations, dropout and residual adds. Of a transformer block of width C over B x T
// tokens with H heads it keeps 10 B T C + B T H elements instead of 16 B T C + B T (H + 4), for a few percent of a step's
// time.
func DearOnly(t Tensor) Action {
	if t.Rule != nil && t.Rule.Dear {
		return Save
	}
	return Recompute
}

// DearTo is DearOnly with what it keeps given to the saver of OffloadTo.
func DearTo(t Tensor) Action {
	if DearOnly(t) == Save {
		return Offload
	}
	return Recompute
}

// EveryKth recomputes each k-th block of a chain, the first included, and keeps the others whole. 1 recomputes all.
func EveryKth(k int) (Policy, error) {
	if k < 1 {
		return nil, fmt.Errorf("checkpoint: EveryKth(%d): want 1 or more", k)
	}
	return func(t Tensor) Action {
		if t.Block%k == 0 {
			return Recompute
		}
		return Everything(t)
	}, nil
}

// Scopes recomputes what ops read that run in scopes of the given names and keeps the rest. A name is one part of a scope's
// path ("attn" of "gpt/blocks.0/attention/attn") or a pattern for one, as in package path ("blocks.*").
func Scopes(names ...string) (Policy, error) {
	for _, n := range names {
		if _, err := path.Match(n, ""); err != nil || n == "" || strings.Contains(n, "/") {
			return nil, fmt.Errorf("checkpoint: Scopes: %q: want one part of a scope's path, or a pattern for one", n)
		}
	}
	return func(t Tensor) Action {
		if inScope(t.Reader.Scope, names) {
			return Recompute
		}
		return Everything(t)
	}, nil
}

func inScope(scope string, names []string) bool {
	for part := range strings.SplitSeq(scope, "/") {
		for _, n := range names {
			if ok, _ := path.Match(n, part); ok {
				return true
			}
		}
	}
	return false
}
