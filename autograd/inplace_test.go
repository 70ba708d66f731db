package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestInPlaceTakesTheBufferOver(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{2, 3}, 2)
	x := r.tensor([]float64{5, 7}, 2)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		h := add(s, w.Value(), s.Input(x)) // saves nothing
		live := r.dev.Stats().Live
		y := addInPlace(s, h, w.Value())
		require.Equal(t, live, r.dev.Stats().Live)
		require.Equal(t, []float64{9, 13}, tensor.Data[float64](y.Tensor()))
		sum(s, mul(s, y, y)).Backward(s)
	})
	require.Equal(t, []float64{2 * 2 * 9, 2 * 2 * 13}, grad(w))
}

func TestInPlaceOnAViewKeepsTheHistoryRight(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3, 4}, 4)
	r.ok(func(s *autograd.Scope) {
		h := add(s, w.Value(), w.Value())
		v := autograd.Apply(s, firstHalfOp{}, h)
		y := addInPlace(s, v, v.Detach(s)) // reads itself: 4w
		sum(s, mul(s, y, y)).Backward(s)
	})
	require.Equal(t, []float64{2 * 4 * 2, 2 * 8 * 2, 0, 0}, grad(w))
}

// firstHalfOp is a view of one output.
type firstHalfOp struct{ halvesOp }

var firstHalfRule = &autograd.Rule{Name: "testfirst"}

func (firstHalfOp) Rule() *autograd.Rule { return firstHalfRule }
func (firstHalfOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Add(in[0].DType, in[0].Shape[0]/2)
	return nil
}

func TestInPlaceRefusals(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{2, 3}, 2)
	x := r.tensor([]float64{5, 7}, 2)
	m := r.tensor([]float64{1, 2, 3, 4}, 2, 2)
	defer x.Release()
	defer m.Release()
	cases := []struct {
		name  string
		f     func(s *autograd.Scope)
		texts []string
	}{
		{"leaf", func(s *autograd.Scope) { addInPlace(s, w.Value(), s.Input(x)) },
			[]string{"testadd_[w:float64[2] float64[2]]", "a leaf that requires grad is being used in an in-place operation"}},
		{"leaf value", func(s *autograd.Scope) { addInPlace(s, s.Input(x).RequireGrad(), s.Input(x)) },
			[]string{"a leaf that requires grad"}},
		{"view of a leaf", func(s *autograd.Scope) {
			v := autograd.Apply(s, firstHalfOp{}, w.Value())
			addInPlace(s, v, v)
		}, []string{"a view of a leaf that requires grad"}},
		{"multiple views", func(s *autograd.Scope) {
			a, b := halves(s, add(s, w.Value(), s.Input(x)))
			addInPlace(s, a, b)
		}, []string{"output 0 of testhalves", "multiple views"}},
		{"view under NoGrad", func(s *autograd.Scope) {
			h := add(s, w.Value(), s.Input(x))
			v := autograd.Apply(s.NoGrad(), firstHalfOp{}, h)
			addInPlace(s, v, autograd.Apply(s, firstHalfOp{}, w.Value()))
		}, []string{"created in NoGrad mode and is being modified inplace"}},
		{"saved value", func(s *autograd.Scope) {
			h := add(s, w.Value(), s.Input(x))
			y := mul(s, h, h)
			addInPlace(s, h, s.Input(x))
			sum(s, y).Backward(s)
		}, []string{"modified by an inplace operation", "float64[2], which is output 0 of testadd", "is at version 1; expected version 0"}},
		{"used after", func(s *autograd.Scope) {
			h := add(s, w.Value(), s.Input(x))
			addInPlace(s, h, s.Input(x))
			mul(s, h, h)
		}, []string{"testmul", "made by testadd", "was overwritten by an in-place operation"}},
		{"overlapping", func(s *autograd.Scope) {
			h := add(s, w.Value(), s.Input(x))
			e := autograd.Apply(s, bothOp{}, h)
			addInPlace(s, autograd.Apply(s, secondOp{}, e), autograd.Apply(s, firstOp{}, e))
		}, []string{"input 1 lies on some of the memory that is written to"}},
		{"grown", func(s *autograd.Scope) {
			addInPlace(s, add(s, w.Value(), s.Input(x)), s.Input(m))
		}, []string{"output with shape [2] doesn't match the broadcast shape [2 2]"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			r.fails(c.f, c.texts...)
		})
	}
}

func TestParameterChangedBetweenForwardAndBackward(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{2, 3}, 2)
	v := r.param("v", []float64{4, 5}, 2)
	r.fails(func(s *autograd.Scope) {
		loss := sum(s, mul(s, w.Value(), v.Value()))
		require.NoError(t, tensor.Fill(v.Tensor(), 1))
		loss.Backward(s)
	}, "parameter v float64[2]", "modified by an inplace operation")
	w.SetFrozen(true) // now nothing reads v
	r.ok(func(s *autograd.Scope) {
		loss := sum(s, mul(s, w.Value(), v.Value()))
		require.NoError(t, tensor.Fill(v.Tensor(), 2))
		loss.Backward(s)
	})
	require.Equal(t, []float64{2, 3}, grad(v))
	require.Nil(t, w.Grad())
}

// bothOp gives [4] from [2], as memory that can be viewed.
type bothOp struct{ sumOp }

var bothRule = &autograd.Rule{Name: "testboth"}

func (bothOp) Rule() *autograd.Rule { return bothRule }
func (bothOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Add(in[0].DType, 4)
	return nil
}
func (bothOp) Forward(f *autograd.Fwd) { clear(tensor.Data[float64](&f.Out[0])) }

// firstOp and secondOp are elements 0 to 2 and 1 to 3 of 4.
type firstOp struct{ halvesOp }

var (
	firstRule  = &autograd.Rule{Name: "testfirst3"}
	secondRule = &autograd.Rule{Name: "testlast3"}
)

func (firstOp) Rule() *autograd.Rule { return firstRule }
func (firstOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Add(in[0].DType, 3)
	return nil
}
func (firstOp) View(x *tensor.Tensor, _ int) tensor.Tensor { return cut(x, 0) }

type secondOp struct{ firstOp }

func (secondOp) Rule() *autograd.Rule                       { return secondRule }
func (secondOp) View(x *tensor.Tensor, _ int) tensor.Tensor { return cut(x, 1) }

func cut(x *tensor.Tensor, lo int) tensor.Tensor {
	v, err := x.Slice(0, lo, lo+3)
	if err != nil {
		panic(err)
	}
	return v
}
