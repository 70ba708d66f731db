package nn

import (
	"strconv"

	"github.com/thimble-ml/thimble/autograd"
)

// Forward is the type of Module.Forward.
type Forward func(s *autograd.Scope, x *autograd.Value) *autograd.Value

// Wrapper says how a model runs its i-th block, with what it saves offloaded for instance. It is called once for each block
// of a forward pass, in the block's scope ("blocks.3"), runs block on x once or, in a replay, more often, and returns its
// result; block may be run in another scope than s. x stays the model's, which frees it when the wrapper has returned. nil
// runs the block as it is, and so does a wrapper that returns block(s, x). Parameters and their names are the same with a
// wrapper and without.
type Wrapper func(s *autograd.Scope, i int, x *autograd.Value, block Forward) *autograd.Value

// Chain says how a model runs its blocks one after the other: package checkpoint has chains that recompute blocks, or runs of
// them, in backward. It is called once for each forward pass, in the model's scope, and returns the last block's result.
// blocks[i] opens the block's scope in s, goes through the model's Wrapper if there is one, and frees its input as early as it
// can, in forward and in replays. nil runs the blocks as they are. Parameters and their names are the same with a chain and
// without.
type Chain func(s *autograd.Scope, x *autograd.Value, blocks []Forward) *autograd.Value

// stage is a block of a model: forward frees x as early as it can if mine is true.
type stage interface {
	Module
	forward(s *autograd.Scope, x *autograd.Value, cache *layerCache, mine bool) *autograd.Value
}

// runBlocks runs the blocks of a model on x, which it frees.
func runBlocks[S stage](s *autograd.Scope, c Chain, w Wrapper, x *autograd.Value, blocks []S) *autograd.Value {
	if c == nil {
		for i, b := range blocks {
			x = w.run(s, i, x, b)
		}
		return x
	}
	fs := make([]Forward, len(blocks))
	for i, b := range blocks {
		fs[i] = func(s *autograd.Scope, x *autograd.Value) *autograd.Value { return w.run(s, i, x, b) }
	}
	return c(s, x, fs)
}

// run runs block i in a scope of its own and frees x, which is the model's.
func (w Wrapper) run(s *autograd.Scope, i int, x *autograd.Value, block stage) *autograd.Value {
	y := s.Do("blocks."+strconv.Itoa(i), func(s *autograd.Scope) *autograd.Value {
		if w == nil {
			return block.forward(s, x, nil, true)
		}
		return w(s, i, x, block.Forward)
	})
	if y != x {
		s.Free(x)
	}
	return y
}
