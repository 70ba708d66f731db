package checkpoint

import (
	"fmt"
	"math"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
)

// Schedule says how a chain of blocks runs: steps one after the other, each some blocks that are kept, or a region with a
// schedule of its own. In the second run of a region its inner schedule holds, and so on inwards.
type Schedule []Step

// Step is a part of a Schedule: Blocks blocks, or, if Inner is not nil, a region over those of Inner.
type Step struct {
	Blocks int
	Inner  Schedule
	Policy Policy // of the region; nil keeps its input only
}

// Len is how many blocks sc runs.
func (sc Schedule) Len() (n int) {
	for _, st := range sc {
		n += st.len()
	}
	return n
}

func (st Step) len() int {
	if st.Inner != nil {
		return st.Inner.Len()
	}
	return st.Blocks
}

// String writes blocks by index, regions in parentheses, and those with a policy in brackets: "(0 1) [2] 3".
func (sc Schedule) String() string {
	var b strings.Builder
	sc.write(&b, 0)
	return b.String()
}

func (sc Schedule) write(b *strings.Builder, at int) {
	for i, st := range sc {
		if i > 0 {
			b.WriteByte(' ')
		}
		if st.Inner != nil {
			brackets := "()"
			if st.Policy != nil {
				brackets = "[]"
			}
			b.WriteByte(brackets[0])
			st.Inner.write(b, at)
			b.WriteByte(brackets[1])
		}
		for k := range st.Blocks {
			if k > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprint(b, at+k)
		}
		at += st.len()
	}
}

// All keeps everything: the plain run.
func All(n int) Schedule {
	if n < 1 {
		return nil
	}
	return Schedule{{Blocks: n}}
}

// PerBlock makes each of n blocks a region: n inputs and what one block saves are the most that is kept.
func PerBlock(n int) Schedule { return uniform(n, n) }

// Segments makes each of k runs of blocks a region, the first ones longer by one if k does not divide n: k inputs and
// what the blocks of one segment save. k is bounded by n.
func Segments(k int) func(n int) Schedule {
	return func(n int) Schedule { return uniform(n, min(max(k, 1), n)) }
}

// Sqrt is Segments of about the square root of n (Chen et al., 2016).
func Sqrt(n int) Schedule { return uniform(n, int(math.Round(math.Sqrt(float64(n))))) }

func uniform(n, k int) (sc Schedule) {
	at := 0
	for _, end := range ends(n, k) {
		sc = append(sc, region(Schedule{{Blocks: end - at}}))
		at = end
	}
	return sc
}

func region(inner Schedule) Step { return Step{Inner: inner} }

// Recursive halves the chain: the first half is a region that is halved in turn, the second half goes on as the chain does.
// About log2(n) inputs and what one block saves are kept, and the work of forward is done up to log2(n)/2 more times.
func Recursive(n int) Schedule { return halve(n, true) }

// halve gives the schedule of n blocks; last says that they end the chain.
func halve(n int, last bool) Schedule {
	switch {
	case n < 1:
		return nil
	case n == 1 && last:
		return Schedule{region(All(1))}
	case n == 1:
		return All(1)
	}
	return append(Schedule{region(halve((n+1)/2, false))}, halve(n/2, last)...)
}

// Chain gives what a model's Chain field takes: its blocks by the schedule that f gives for their number. The options are
// for every region; a region of a schedule that has a policy keeps its own.
//
//	model.Chain = checkpoint.Chain(checkpoint.Sqrt)
func Chain(f func(n int) Schedule, opts ...Option) nn.Chain {
	return func(s *autograd.Scope, x *autograd.Value, blocks []nn.Forward) *autograd.Value {
		sc := f(len(blocks))
		if n := sc.Len(); n != len(blocks) {
			fail(s, fmt.Errorf("a schedule of %d blocks for a chain of %d: %s", n, len(blocks), sc))
		}
		return sc.run(s, x, blocks, 0, opts)
	}
}

// run runs the blocks from the at-th on; they free their inputs.
func (sc Schedule) run(s *autograd.Scope, x *autograd.Value, blocks []nn.Forward, at int, opts []Option) *autograd.Value {
	for _, st := range sc {
		if st.Inner != nil {
			x = st.region(s, x, blocks, at, opts)
		}
		for k := range st.Blocks {
			x = blocks[at+k](s, x)
		}
		at += st.len()
	}
	return x
}

// region runs st, which is one.
func (st Step) region(s *autograd.Scope, x *autograd.Value, blocks []nn.Forward, at int, opts []Option) *autograd.Value {
	own := append(append([]Option(nil), opts...), atBlock(at))
	if st.Policy != nil {
		own = append(own, With(st.Policy))
	}
	return Run1(s, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		return st.Inner.run(s, x, blocks, at, opts)
	}, x, own...)
}
