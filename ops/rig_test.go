package ops_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

var site = memory.Site{Op: "test"}

// rig is a device with a session.
type rig struct {
	t    testing.TB
	dev  *memory.Device
	sess *autograd.Session
}

func newRig(t testing.TB, cfg autograd.Config) *rig {
	t.Helper()
	dev, err := memory.NewDevice(memory.Config{Reserve: 8 << 30})
	require.NoError(t, err)
	soil(t, dev, 1<<18)
	cfg.Device = dev
	sess, err := autograd.New(cfg)
	require.NoError(t, err)
	return &rig{t, dev, sess}
}

// soil leaves NaN in the memory that comes next, so that what an op forgets to write shows.
func soil(t testing.TB, dev *memory.Device, bytes int64) {
	t.Helper()
	b, err := dev.Alloc(bytes, memory.Other, site)
	require.NoError(t, err)
	data := b.Bytes()
	data[0] = 0xff
	for n := 1; n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
	b.Release()
}

// close checks that nothing was left behind.
func (r *rig) close() {
	r.t.Helper()
	require.NoError(r.t, r.sess.Close())
	require.NoError(r.t, r.dev.Close())
}

// tensor makes a from an array, converted to dt.
func (r *rig) tensor(a array, dt tensor.DType) *tensor.Tensor {
	r.t.Helper()
	full, err := tensor.From(r.dev, memory.Input, site, a.data, a.shape...)
	require.NoError(r.t, err)
	if dt == tensor.Float64 {
		return full
	}
	defer full.Release()
	t, err := full.To(dt, memory.Input, site)
	require.NoError(r.t, err)
	return t
}

// param makes a parameter of the array.
func (r *rig) param(name string, a array, dt tensor.DType) *autograd.Param {
	r.t.Helper()
	src := r.tensor(a, dt)
	defer src.Release()
	p, err := r.sess.NewParam(name, src.Spec(), func(t *tensor.Tensor, _ *tensor.Stream) error { return tensor.Copy(t, src) })
	require.NoError(r.t, err)
	return p
}

func (r *rig) step(f func(s *autograd.Scope)) error {
	return r.sess.Step(context.Background(), func(s *autograd.Scope) error { f(s); return nil })
}

// ok runs a step that must succeed.
func (r *rig) ok(f func(s *autograd.Scope)) {
	r.t.Helper()
	require.NoError(r.t, r.step(f))
}

// fails runs a step that must fail with an *Error that contains all these texts, and leave live bytes as they were.
func (r *rig) fails(f func(s *autograd.Scope), texts ...string) {
	r.t.Helper()
	live := r.dev.Stats().Live
	err := r.step(f)
	var e *autograd.Error
	require.True(r.t, errors.As(err, &e), "an *autograd.Error, not %v", err)
	for _, text := range texts {
		require.ErrorContains(r.t, err, text)
	}
	require.Equal(r.t, live, r.dev.Stats().Live, "live bytes after %v", err)
}

// read copies a tensor of any dtype and strides.
func read(t *tensor.Tensor) array {
	a := newArray(t.Shape()...)
	switch {
	case t.IsContiguous() && t.DType() == tensor.Float32:
		for i, v := range tensor.Data[float32](t) {
			a.data[i] = float64(v)
		}
	case t.IsContiguous() && t.DType() == tensor.Float64:
		copy(a.data, tensor.Data[float64](t))
	default:
		a = each(t.Shape(), func(idx []int) float64 { return t.At(idx...) })
	}
	return a
}

// near reports the first element of got that is further from want than rel of it plus abs; NaN equals NaN.
func near(want, got array, rel, abs float64) error {
	if fmt.Sprint(want.shape) != fmt.Sprint(got.shape) {
		return fmt.Errorf("shape %v, want %v", got.shape, want.shape)
	}
	for i, w := range want.data {
		g := got.data[i]
		switch {
		case w == g || math.IsNaN(w) && math.IsNaN(g):
		case !(math.Abs(w-g) <= rel*math.Abs(w)+abs):
			return fmt.Errorf("element %v is %v, want %v", want.index(i), g, w)
		}
	}
	return nil
}

// layout is how an input lies in memory.
type layout int

const (
	plain      layout = iota
	sliced            // columns 1 to n of rows of n+3
	transposed        // the last two dimensions were swapped
)

// store gives what is stored, so that view of it is a.
func (l layout) store(a array) array {
	n := len(a.shape)
	switch {
	case l == sliced && n >= 1:
		shape := append([]int{}, a.shape...)
		shape[n-1] += 3
		return each(shape, func(idx []int) float64 {
			i := append([]int{}, idx...)
			if i[n-1]--; i[n-1] < 0 || i[n-1] >= a.shape[n-1] {
				return 99
			}
			return a.at(i...)
		})
	case l == transposed && n >= 2:
		shape := append([]int{}, a.shape...)
		shape[n-1], shape[n-2] = shape[n-2], shape[n-1]
		return each(shape, func(idx []int) float64 {
			i := append([]int{}, idx...)
			i[n-1], i[n-2] = i[n-2], i[n-1]
			return a.at(i...)
		})
	}
	return a
}

// view undoes store in the graph, as a view.
func (l layout) view(s *autograd.Scope, v *autograd.Value) *autograd.Value {
	n := len(v.Shape())
	switch {
	case l == sliced && n >= 1:
		return ops.Slice(s, v, -1, 1, v.Dim(-1)-2)
	case l == transposed && n >= 2:
		return autograd.Apply(s, transposeOp{}, v)
	}
	return v
}

// viewTensor is view of a tensor.
func (l layout) viewTensor(t *tensor.Tensor) tensor.Tensor {
	n := t.Rank()
	v, err := *t, error(nil)
	switch {
	case l == sliced && n >= 1:
		v, err = t.Slice(-1, 1, t.Dim(-1)-2)
	case l == transposed && n >= 2:
		v, err = t.Transpose(-1, -2)
	}
	if err != nil {
		panic(err)
	}
	return v
}

// transposeOp swaps the last two dimensions, as a view.
type transposeOp struct{}

var transposeRule = &autograd.Rule{Name: "testtranspose"}

func (transposeOp) Rule() *autograd.Rule { return transposeRule }

func (transposeOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Add(in[0].DType, in[0].Shape...)
	d := sh.Out[0].Shape
	n := len(d)
	d[n-1], d[n-2] = d[n-2], d[n-1]
	return nil
}

func (transposeOp) View(x *tensor.Tensor, _ int) tensor.Tensor { return transposed.viewTensor(x) }
func (transposeOp) Forward(*autograd.Fwd)                      {}
func (transposeOp) Backward(*autograd.Bwd)                     {}
