package checkpoint

import (
	"fmt"
	"strconv"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
)

// wrapped is a module that runs as a region. Walking passes through it: names stay.
type wrapped struct {
	m    nn.Module
	opts []Option
}

// Wrap gives m run as a region. Names and order of its parameters are the same with it and without.
func Wrap(m nn.Module, opts ...Option) nn.Module { return &wrapped{m, opts} }

// Unwrap gives the module, for package nn's walks.
func (w *wrapped) Unwrap() any { return w.m }

// Forward is the module's, as a region.
func (w *wrapped) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return Run1(s, w.m.Forward, x, w.opts...)
}

// sequential is modules in segments.
type sequential struct {
	modules nn.Sequential
	ends    []int // of the segments
	opts    []Option
}

// Sequential runs modules in that many segments of equal length, the first ones longer by one if it does not divide. Each
// but the last is a region; the last is kept, as torch.utils.checkpoint.checkpoint_sequential does, since backward begins
// there. Names are those of the nn.Sequential of the modules, and so are scopes. With 1 segment nothing is recomputed.
func Sequential(modules []nn.Module, segments int, opts ...Option) (nn.Module, error) {
	if segments < 1 || segments > len(modules) {
		return nil, fmt.Errorf("checkpoint: Sequential: %d segments of %d modules: want 1 to %d", segments, len(modules), len(modules))
	}
	for i, m := range modules {
		if m == nil {
			return nil, fmt.Errorf("checkpoint: Sequential: module %d of %d is nil", i, len(modules))
		}
	}
	return &sequential{modules: modules, ends: ends(len(modules), segments), opts: opts}, nil
}

// ends gives where each of k parts of n ends; the first n mod k parts are longer by one.
func ends(n, k int) (list []int) {
	at := 0
	for i := range k {
		at += n / k
		if i < n%k {
			at++
		}
		list = append(list, at)
	}
	return list
}

// Unwrap gives the modules, for package nn's walks.
func (q *sequential) Unwrap() any { return q.modules }

// Forward runs the segments.
func (q *sequential) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	steps := Schedule{}
	at := 0
	for i, end := range q.ends {
		st := Step{Blocks: end - at}
		if i < len(q.ends)-1 {
			st = Step{Inner: Schedule{st}}
		}
		steps, at = append(steps, st), end
	}
	blocks := make([]nn.Forward, len(q.modules))
	for i, m := range q.modules {
		blocks[i] = func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			y := s.Do(strconv.Itoa(i), func(s *autograd.Scope) *autograd.Value { return m.Forward(s, x) })
			if i > 0 && y != x { // the first input is the caller's
				s.Free(x)
			}
			return y
		}
	}
	return steps.run(s, x, blocks, 0, q.opts)
}
