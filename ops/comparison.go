package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// Comparisons and logic: a Bool for each element of the shape that the inputs broadcast to. They have no gradients: nothing
// is recorded or saved, whatever the inputs require.
//
// Comparisons with NaN are false; Ne is true.

// Eq tells where a = b, over the shape that the two broadcast to, as a Bool. Dtypes must be equal: a float dtype, Int64
// or Int32. There is no gradient.
func Eq(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, eqOp, a, b)
}

// Ne tells where a and b differ, or one is NaN; all else is as for [Eq].
func Ne(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, neOp, a, b)
}

// Lt tells where a < b; all else is as for [Eq].
func Lt(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, ltOp, a, b)
}

// Le tells where a <= b; all else is as for [Eq].
func Le(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, leOp, a, b)
}

// Gt tells where a > b; all else is as for [Eq].
func Gt(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, gtOp, a, b)
}

// Ge tells where a >= b; all else is as for [Eq].
func Ge(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, geOp, a, b)
}

// And tells where both a and b hold, over the shape that the two broadcast to: torch's logical_and. All are Bool.
func And(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, andOp, a, b)
}

// Or tells where a or b holds, over the shape that the two broadcast to: torch's logical_or. All are Bool.
func Or(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, orOp, a, b)
}

// Not tells where a does not hold: torch's logical_not. Both are Bool, of one shape.
func Not(s *autograd.Scope, a *autograd.Value) *autograd.Value { return autograd.Apply(s, notOp, a) }

// comparisonOp is one relation; swap says that it is that of b to a.
type comparisonOp struct {
	rule *autograd.Rule
	c    kernel.Comparison
	swap bool
}

var (
	eqOp = &comparisonOp{&autograd.Rule{Name: "eq", Each: true, Cast: autograd.CastWidest, Broadcast: true, Strided: true}, kernel.CompareEq, false}
	neOp = &comparisonOp{&autograd.Rule{Name: "ne", Each: true, Cast: autograd.CastWidest, Broadcast: true, Strided: true}, kernel.CompareNe, false}
	ltOp = &comparisonOp{&autograd.Rule{Name: "lt", Each: true, Cast: autograd.CastWidest, Broadcast: true, Strided: true}, kernel.CompareLt, false}
	leOp = &comparisonOp{&autograd.Rule{Name: "le", Each: true, Cast: autograd.CastWidest, Broadcast: true, Strided: true}, kernel.CompareLe, false}
	gtOp = &comparisonOp{&autograd.Rule{Name: "gt", Each: true, Cast: autograd.CastWidest, Broadcast: true, Strided: true}, kernel.CompareLt, true}
	geOp = &comparisonOp{&autograd.Rule{Name: "ge", Each: true, Cast: autograd.CastWidest, Broadcast: true, Strided: true}, kernel.CompareLe, true}
)

func (o *comparisonOp) Rule() *autograd.Rule { return o.rule }

func (o *comparisonOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if err := wantNumbers(in...); err != nil {
		return err
	}
	return inferZip(tensor.Bool, sh, in...)
}

func (o *comparisonOp) Forward(f *autograd.Fwd) {
	byNumber(f.In[0].DType(), compare[float32], compare[float64], compare[int32], compare[int64])(o, f)
}

func compare[T number](o *comparisonOp, f *autograd.Fwd) {
	y, a, b := operand.Of[bool](&f.Out[0]), operand.Of[T](&f.In[0]), operand.Of[T](&f.In[1])
	if o.swap {
		a, b = b, a
	}
	n := f.Out[0].Elems()
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Compare(o.c, y, a, b, lo, hi)
	})
}

func (*comparisonOp) Backward(*autograd.Bwd) { panic("ops: comparisons have no gradients") }

type logicOp struct {
	rule *autograd.Rule
	f    kernel.Logic
}

var (
	andOp = &logicOp{&autograd.Rule{Name: "logical_and", Broadcast: true, Strided: true}, kernel.LogicAnd}
	orOp  = &logicOp{&autograd.Rule{Name: "logical_or", Broadcast: true, Strided: true}, kernel.LogicOr}
	notOp = &logicOp{&autograd.Rule{Name: "logical_not", Strided: true}, kernel.LogicNot}
)

func (o *logicOp) Rule() *autograd.Rule { return o.rule }

func (o *logicOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	for _, s := range in {
		if s.DType != tensor.Bool {
			return fmt.Errorf("want bool, got %s"+dtypeTable, s.DType)
		}
	}
	return inferZip(tensor.Bool, sh, in...)
}

func (o *logicOp) Forward(f *autograd.Fwd) {
	y, a, b := operand.Of[bool](&f.Out[0]), operand.Of[bool](&f.In[0]), operand.Of[bool](&f.In[len(f.In)-1])
	n := f.Out[0].Elems()
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Combine(o.f, y, a, b, lo, hi)
	})
}

func (*logicOp) Backward(*autograd.Bwd) { panic("ops: truth values have no gradients") }
