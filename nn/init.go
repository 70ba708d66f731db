package nn

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Init fills a new parameter, drawing from the session's stream of initial values: the same seed and the same order of
// constructors give the same bits.
type Init func(t *tensor.Tensor, r *tensor.Stream) error

// Uniform draws from [lo, hi).
func Uniform(lo, hi float64) Init {
	return func(t *tensor.Tensor, r *tensor.Stream) error { return tensor.FillUniform(t, r, lo, hi) }
}

// Normal draws from the normal distribution of that mean and standard deviation.
func Normal(mean, std float64) Init {
	return func(t *tensor.Tensor, r *tensor.Stream) error { return tensor.FillNormal(t, r, mean, std) }
}

// Constant sets every element to v and draws nothing.
func Constant(v float64) Init {
	return func(t *tensor.Tensor, _ *tensor.Stream) error { return tensor.Fill(t, v) }
}

// fanIn is torch's default for a layer with n inputs: Kaiming's uniform distribution (He et al. 2015) with a slope of
// sqrt(5), which comes to U(-1/sqrt(n), 1/sqrt(n)).
func fanIn(n int) Init {
	bound := 1 / math.Sqrt(float64(n))
	return Uniform(-bound, bound)
}

// or gives f, or standard if f is nil.
func (f Init) or(standard Init) Init {
	if f == nil {
		return standard
	}
	return f
}

// maker makes the parameters of one layer. The first thing that is wrong stops it, and end gives back what it had made.
type maker struct {
	call string // "NewLinear"
	sess *autograd.Session
	made []*autograd.Param
	bufs []*tensor.Tensor
	err  error
}

func newMaker(call string, sess *autograd.Session) *maker {
	k := &maker{call: call, sess: sess}
	if sess == nil {
		k.err = errors.New("the session is nil: want one from autograd.New")
	}
	return k
}

func (k *maker) failf(format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf(format, args...)
	}
}

// positive asks for a size of 1 or more.
func (k *maker) positive(what string, n int) {
	if n < 1 {
		k.failf("%s %d: want 1 or more", what, n)
	}
}

// probability asks for a number from 0 to 1.
func (k *maker) probability(what string, p float64) {
	if !(p >= 0 && p <= 1) {
		k.failf("%s %v: want 0 to 1", what, p)
	}
}

// config gives the one config of a variadic constructor, or the zero value.
func config[C any](k *maker, cfg []C) (c C) {
	switch len(cfg) {
	case 0:
	case 1:
		c = cfg[0]
	default:
		k.failf("%d configs: want one at most", len(cfg))
	}
	return c
}

// param makes a parameter; nil if something is wrong.
func (k *maker) param(name string, init Init, dt tensor.DType, shape ...int) *autograd.Param {
	if !dt.IsFloat() {
		k.failf("dtype %s: want float32, float64, float16 or bfloat16", dt)
	}
	if k.err != nil {
		return nil
	}
	p, err := k.sess.NewParam(name, tensor.Of(dt, shape...), init)
	if err != nil {
		k.err = err
		return nil
	}
	k.made = append(k.made, p)
	return p
}

func isHalf(dt tensor.DType) bool { return dt == tensor.Float16 || dt == tensor.BFloat16 }

// buffer makes a tensor of v, counted as Other, that the session gives back when it closes; nil if something is wrong.
func (k *maker) buffer(name string, v float64, dt tensor.DType, shape ...int) *tensor.Tensor {
	if k.err != nil {
		return nil
	}
	t, err := tensor.New(k.sess.Device(), memory.Other, memory.Site{Op: "buffer", Scope: name}, tensor.Of(dt, shape...))
	if err != nil {
		k.err = err
		return nil
	}
	k.bufs = append(k.bufs, t)
	if err := tensor.Fill(t, v); err != nil {
		k.err = err
	}
	return t
}

// end gives the error, if there is one.
func (k *maker) end() error {
	if k.err == nil {
		for _, t := range k.bufs {
			k.sess.OnClose(t.Release)
		}
		return nil
	}
	for _, t := range slices.Backward(k.bufs) {
		t.Release()
	}
	for _, p := range slices.Backward(k.made) {
		p.Release()
	}
	return fmt.Errorf("nn: %s: %w", k.call, k.err)
}

// built gives m, or gives back what it holds so far if the making of a part failed.
func built[M any](m *M, err error) (*M, error) {
	if err == nil {
		return m, nil
	}
	for _, p := range slices.Backward(AllParams(m)) {
		p.Release()
	}
	return nil, err
}

// value is p as an op takes it, nil if the layer has none.
func value(p *autograd.Param) *autograd.Value {
	if p == nil {
		return nil
	}
	return p.Value()
}

// fans are the inputs and outputs that one element of a weight [out in ...] takes part in.
func fans(t *tensor.Tensor) (in, out int, err error) {
	s := t.Spec()
	if s.Rank() < 2 {
		return 0, 0, fmt.Errorf("nn: init of %s: want a weight [out in ...] of two dimensions or more", s)
	}
	taps := 1
	for _, n := range s.Shape[2:] {
		taps *= n
	}
	return s.Dim(1) * taps, s.Dim(0) * taps, nil
}

// scaled draws from a distribution of that standard deviation, which depends on the fans.
func scaled(draw func(std float64) Init, std func(in, out int) float64) Init {
	return func(t *tensor.Tensor, r *tensor.Stream) error {
		in, out, err := fans(t)
		if err != nil {
			return err
		}
		return draw(std(in, out))(t, r)
	}
}

func normalOf(std float64) Init { return Normal(0, std) }

// uniformOf is the uniform distribution of that standard deviation.
func uniformOf(std float64) Init { return Uniform(-math.Sqrt(3)*std, math.Sqrt(3)*std) }

// KaimingNormal draws from N(0, 2/in), for layers before a ReLU (He et al., 2015), torch's kaiming_normal_.
func KaimingNormal() Init {
	return scaled(normalOf, func(in, _ int) float64 { return math.Sqrt(2 / float64(in)) })
}

// KaimingUniform draws from the uniform distribution of the same variance, torch's kaiming_uniform_.
func KaimingUniform() Init {
	return scaled(uniformOf, func(in, _ int) float64 { return math.Sqrt(2 / float64(in)) })
}

// XavierNormal draws from N(0, 2/(in+out)) (Glorot and Bengio, 2010), torch's xavier_normal_.
func XavierNormal() Init {
	return scaled(normalOf, func(in, out int) float64 { return math.Sqrt(2 / float64(in+out)) })
}

// XavierUniform draws from the uniform distribution of the same variance, torch's xavier_uniform_.
func XavierUniform() Init {
	return scaled(uniformOf, func(in, out int) float64 { return math.Sqrt(2 / float64(in+out)) })
}
