package nn

import (
	"fmt"
	"strconv"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

// Sequential runs modules one after the other, torch.nn.Sequential. It is a slice: index it, range over it, cut it.
//
//	net := nn.Sequential{fc1, nn.ReLU{}, nn.Dropout{P: 0.1}, fc2}
type Sequential []Module

// Forward gives the last module's result; x itself if there are none. Module i runs in a scope named i. A value between
// two modules is freed when the second has run, so a module gives away what it returns: its input, or a value that it
// made. Under NoGrad a Linear and the ReLU or GELU behind it are one op, in the Linear's scope: the values are the same, and
// what lies between the two is never made.
func (q Sequential) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return q.run(s, x, false)
}

// run is Forward; mine says that x is freed too.
func (q Sequential) run(s *autograd.Scope, x *autograd.Value, mine bool) *autograd.Value {
	y := x
	for i := 0; i < len(q); i++ {
		free, at := mine || y != x, i
		act, fused := q.fused(s, i)
		if fused {
			i++
		}
		next := s.Do(strconv.Itoa(at), func(s *autograd.Scope) *autograd.Value {
			if fused {
				l := q[at].(*Linear)
				return ops.LinearActivation(s, y, value(l.Weight), value(l.Bias), act)
			}
			return q.module(at, s, y, free)
		})
		if free && next != y {
			s.Free(y)
		}
		y = next
	}
	return y
}

// fused tells whether modules i and i+1 are one op, and with which activation.
func (q Sequential) fused(s *autograd.Scope, i int) (act ops.Activation, ok bool) {
	if !s.Modes().NoGrad || i+1 == len(q) {
		return 0, false
	}
	if l, linear := q[i].(*Linear); !linear || l == nil {
		return 0, false
	}
	return activationOf(q[i+1])
}

// module runs module i on y. A Sequential inside this one is told whether y may be freed, or it would hold it to its end.
func (q Sequential) module(i int, s *autograd.Scope, y *autograd.Value, free bool) (next *autograd.Value) {
	switch m := q[i].(type) {
	case nil:
		q.fail(s, "module %d of %d is nil", i, len(q))
	case Sequential:
		next = m.run(s, y, free)
	case *Sequential:
		next = m.run(s, y, free)
	default:
		next = m.Forward(s, y)
	}
	if next == nil {
		q.fail(s, "module %d of %d, %T, returned nil: want a value", i, len(q), q[i])
	}
	return next
}

func (q Sequential) fail(s *autograd.Scope, format string, args ...any) {
	panic(&autograd.Error{Op: "sequential", Scope: s.Path(), Err: fmt.Errorf(format, args...)})
}
