package train_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// seen is what the optimizer would see of a window: gradients, their norm, the loss.
type seen struct {
	w, b       []float64
	norm, loss float64
}

// watch makes a window that notes the gradients before each update.
func (r *rig) watch(cfg train.WindowConfig, into *seen) *train.Window {
	cfg.BeforeStep = func(s *autograd.Scope) (err error) {
		if s.Dry() {
			return nil
		}
		into.w = append([]float64(nil), tensor.Data[float64](r.w.Grad())...)
		into.b = append([]float64(nil), tensor.Data[float64](r.b.Grad())...)
		into.norm, err = optim.ClipGradNorm(s, r.opt.Params(), math.Inf(1))
		return err
	}
	return r.window(cfg)
}

func (s seen) requireNear(t *testing.T, want seen, what ...any) {
	t.Helper()
	require.InDeltaSlice(t, want.w, s.w, 1e-12, what...)
	require.InDeltaSlice(t, want.b, s.b, 1e-12, what...)
	require.InDelta(t, want.norm, s.norm, 1e-12, what...)
	require.InDelta(t, want.loss, s.loss, 1e-12, what...)
}

// compositions are all ways to cut n samples into micro-batches.
func compositions(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for first := 1; first <= n; first++ {
		for _, rest := range compositions(n - first) {
			all = append(all, append([]int{first}, rest...))
		}
	}
	return all
}

// W1, W6: gradients, norm and loss are those of the full batch, to rounding, for every way to cut it: by count in sums
// and in means, and as a mean of means where the parts are equal.
func TestEverySplitIsTheFullBatch(t *testing.T) {
	const n = 6
	r := newRig(t)
	defer r.close()
	start := r.values()
	var full seen
	win := r.watch(train.WindowConfig{Micro: 1}, &full)
	require.NoError(t, r.step(func(s *autograd.Scope) error { _, err := win.Backward(s, r.loss(s, 0, n)); return err }))
	full.loss = win.Loss()
	reset := func() {
		copy(tensor.Data[float64](r.w.Tensor()), start[0])
		copy(tensor.Data[float64](r.b.Tensor()), start[1])
	}
	for _, sizes := range compositions(n) {
		equal := true
		for _, k := range sizes {
			equal = equal && k == sizes[0]
		}
		for _, form := range []string{"sums", "means", "mean of means"} {
			if form == "mean of means" && !equal {
				continue
			}
			reset()
			var got seen
			win := r.watch(train.WindowConfig{Micro: len(sizes), ByCount: form != "mean of means"}, &got)
			require.NoError(t, r.step(func(s *autograd.Scope) error {
				if form != "mean of means" {
					require.NoError(t, win.Begin(s, len(sizes), n))
				}
				at := 0
				for i, k := range sizes {
					loss := r.loss(s, at, at+k)
					at += k
					add := win.Backward
					switch form {
					case "sums":
						loss = ops.MulScalar(s, loss, float64(k))
					case "means":
						add = func(s *autograd.Scope, l *autograd.Value) (bool, error) { return win.BackwardMean(s, l, float64(k)) }
					}
					updated, err := add(s, loss)
					require.NoError(t, err)
					require.Equal(t, i == len(sizes)-1, updated)
				}
				return nil
			}))
			got.loss = win.Loss()
			got.requireNear(t, full, "%v %s", sizes, form)
		}
	}
}

// The rest of an epoch is divided by what it really is: told to Begin, to the last bit; scaled by Flush, to rounding.
func TestTheLastWindowMayBeShort(t *testing.T) {
	want := clean(t, 3, []int{0, 1, 2})
	short := func(t *testing.T, rest func(r *rig, win *train.Window)) (*rig, *train.Window) {
		r := newRig(t)
		win := r.window(train.WindowConfig{Micro: 4})
		rest(r, win)
		require.Zero(t, win.Position())
		require.Equal(t, 4, win.Micro())
		require.EqualValues(t, 1, r.count())
		require.Nil(t, r.w.Grad())
		return r, win
	}
	r, win := short(t, func(r *rig, win *train.Window) {
		require.NoError(t, r.step(func(s *autograd.Scope) error {
			require.NoError(t, win.Begin(s, 3, 0))
			require.Equal(t, 3, win.Micro())
			return nil
		}))
		require.NoError(t, r.adds(win, nil, 0, 1))
		require.NoError(t, r.adds(win, nil, 2))
	})
	require.Equal(t, want, r.values())
	loss := win.Loss()
	r.close()

	r, win = short(t, func(r *rig, win *train.Window) {
		require.NoError(t, r.adds(win, nil, 0, 1))
		require.NoError(t, r.adds(win, nil, 2))
		require.NoError(t, r.step(func(s *autograd.Scope) error {
			updated, err := win.Flush(s)
			require.True(t, updated)
			return err
		}))
		require.NoError(t, r.step(func(s *autograd.Scope) error {
			updated, err := win.Flush(s)
			require.False(t, updated, "nothing is left")
			return err
		}))
	})
	require.InDeltaSlice(t, want[0], r.values()[0], 1e-9)
	require.InDelta(t, loss, win.Loss(), 1e-12)
	r.close()
}

func TestFlushByCount(t *testing.T) {
	r := newRig(t)
	defer r.close()
	var full, got seen
	all := r.watch(train.WindowConfig{Micro: 1}, &full)
	require.NoError(t, r.step(func(s *autograd.Scope) error { _, err := all.Backward(s, r.loss(s, 0, 5)); return err }))
	full.loss = all.Loss()

	fresh := newRig(t)
	defer fresh.close()
	win := fresh.watch(train.WindowConfig{Micro: 3, ByCount: true}, &got)
	mean := func(s *autograd.Scope, lo, hi int) {
		_, err := win.BackwardMean(s, fresh.loss(s, lo, hi), float64(hi-lo))
		require.NoError(t, err)
	}
	require.NoError(t, fresh.step(func(s *autograd.Scope) error {
		require.NoError(t, win.Begin(s, 3, 9))
		mean(s, 0, 4)
		mean(s, 4, 5)
		updated, err := win.Flush(s)
		require.True(t, updated)
		return err
	}))
	got.loss = win.Loss()
	got.requireNear(t, full)

	require.ErrorContains(t, fresh.step(func(s *autograd.Scope) error {
		require.NoError(t, win.Begin(s, 3, 9))
		_, err := win.Backward(s, fresh.loss(s, 0, 4))
		require.NoError(t, err)
		_, err = win.Flush(s)
		return err
	}), "train: Window.Flush: after 1 of 3 micro-batches: some losses were sums of unknown count")
}

// W6: a micro-batch in which nothing counts is left out, and a window in which nothing counts updates nothing.
func TestNothingCounts(t *testing.T) {
	r := newRig(t)
	defer r.close()
	var got seen
	win := r.watch(train.WindowConfig{Micro: 2, ByCount: true}, &got)
	nan := func(s *autograd.Scope) *autograd.Value { return ops.MulScalar(s, r.loss(s, 0, 1), math.NaN()) }
	require.NoError(t, r.step(func(s *autograd.Scope) error {
		require.NoError(t, win.Begin(s, 2, 3))
		_, err := win.BackwardMean(s, nan(s), 0)
		require.NoError(t, err)
		_, err = win.BackwardMean(s, r.loss(s, 0, 3), 3)
		return err
	}))
	require.False(t, math.IsNaN(got.norm))
	require.False(t, math.IsNaN(win.Loss()))
	require.EqualValues(t, 1, r.count())
	before := r.values()
	require.NoError(t, r.step(func(s *autograd.Scope) error {
		require.NoError(t, win.Begin(s, 2, 0))
		for range 2 {
			updated, err := win.Backward(s, ops.MulScalar(s, r.loss(s, 0, 1), 0))
			require.NoError(t, err)
			require.False(t, updated)
		}
		return nil
	}))
	require.Equal(t, before, r.values())
	require.EqualValues(t, 1, r.count())
	require.Zero(t, win.Position())
	require.True(t, math.IsNaN(win.Loss()))
}

// Tokens: the mean over those that count in the whole window, not the mean of means, which over-weighs short sequences.
func TestTokensThatCount(t *testing.T) {
	r := newRig(t)
	defer r.close()
	head, err := nn.NewLinear(r.sess, 3, 4)
	require.NoError(t, err)
	opt, err := optim.NewSGD(nn.Params(head), optim.SGDConfig{LR: 1})
	require.NoError(t, err)
	x := r.fixed(t, []float32{1, 2, 3, -1, 0, 1, 0.5, 2, -2, 1, 1, 1, 3, 0, -1, 2, -1, 0}, 6, 3)
	y := r.fixed(t, []int64{1, ops.IgnoreIndex, ops.IgnoreIndex, 3, 0, 2}, 6)
	defer x.Release()
	defer y.Release()
	part := func(s *autograd.Scope, lo, hi int, opts ...ops.CrossEntropyOption) *autograd.Value {
		a, err := x.Slice(0, lo, hi)
		require.NoError(t, err)
		b, err := y.Slice(0, lo, hi)
		require.NoError(t, err)
		return ops.CrossEntropy(s, head.Forward(s, s.Input(&a)), s.Input(&b), opts...)
	}
	grad := func() []float32 { return append([]float32(nil), tensor.Data[float32](head.Weight.Grad())...) }
	var want, got []float32
	var loss float64
	require.NoError(t, r.step(func(s *autograd.Scope) error {
		l := part(s, 0, 6)
		loss = l.Item()
		l.Backward(s)
		want = grad()
		opt.ZeroGrad(s)
		return nil
	}))
	win, err := train.NewWindow(opt, train.WindowConfig{Micro: 3, ByCount: true, BeforeStep: func(*autograd.Scope) error { got = grad(); return nil }})
	require.NoError(t, err)
	require.NoError(t, r.step(func(s *autograd.Scope) error {
		require.NoError(t, win.Begin(s, 3, 4)) // of six tokens four count: 1, 1 and 2
		for i := range 3 {
			if _, err := win.Backward(s, part(s, 2*i, 2*i+2, ops.ReduceSum)); err != nil {
				return err
			}
		}
		return nil
	}))
	require.InDeltaSlice(t, want, got, 1e-6)
	require.InDelta(t, loss, win.Loss(), 1e-6)
}

func (r *rig) fixed(t *testing.T, data any, shape ...int) *tensor.Tensor {
	var x *tensor.Tensor
	var err error
	switch d := data.(type) {
	case []float32:
		x, err = tensor.From(r.dev, memory.Input, site, d, shape...)
	case []int64:
		x, err = tensor.From(r.dev, memory.Input, site, d, shape...)
	}
	require.NoError(t, err)
	return x
}

func TestBeginRefuses(t *testing.T) {
	r := newRig(t)
	defer r.close()
	plain, count := r.window(train.WindowConfig{Micro: 2}), r.window(train.WindowConfig{Micro: 2, ByCount: true})
	one := r.window(train.WindowConfig{Micro: 1})
	require.NoError(t, r.step(func(s *autograd.Scope) error {
		for _, c := range []struct {
			win   *train.Window
			micro int
			n     float64
			text  string
		}{
			{plain, 0, 0, "train: Window.Begin: 0 micro-batches: want 1 or more"},
			{plain, 2, 3, "count 3 of a window that does not weigh by it: want WindowConfig.ByCount"},
			{count, 2, -1, "count is -1: want 0 or more"},
			{count, 2, math.NaN(), "count is NaN"},
			{count, 2, math.Inf(1), "count is +Inf"},
			{one, 2, 0, "want a Micro that says that gradients are accumulated"},
		} {
			require.ErrorContains(t, c.win.Begin(s, c.micro, c.n), c.text)
		}
		_, err := count.Backward(s, r.loss(s, 0, 1))
		require.ErrorContains(t, err, "micro-batch 1 of 2: the count of this window is not known: call Begin")
		_, err = plain.BackwardMean(s, r.loss(s, 0, 1), 1)
		require.ErrorContains(t, err, "train: Window.BackwardMean: the window does not weigh by count")
		require.NoError(t, count.Begin(s, 2, 3))
		_, err = count.BackwardMean(s, r.loss(s, 0, 1), 4)
		require.ErrorContains(t, err, "4 samples or tokens so far: want no more than the 3 that Begin announced")
		_, err = count.BackwardMean(s, r.loss(s, 0, 1), 1)
		require.NoError(t, err)
		require.ErrorContains(t, count.Begin(s, 2, 3), "the window has 1 of 2 micro-batches: want Begin before the first")
		_, err = count.BackwardMean(s, r.loss(s, 0, 1), 1)
		require.ErrorContains(t, err, "2 samples or tokens in all: want the 3 that Begin announced, by which the gradient was divided")
		count.Discard(s)
		return nil
	}))
}

// W4 for what Begin says: a failed step and a dry run forget it.
func TestBeginIsPutBack(t *testing.T) {
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 3})
	begin := func(s *autograd.Scope) error { return win.Begin(s, 2, 0) }
	require.ErrorIs(t, r.step(func(s *autograd.Scope) error { require.NoError(t, begin(s)); return errMine }), errMine)
	require.Equal(t, 3, win.Micro())
	_, err := r.sess.Plan(begin, autograd.PlanConfig{})
	require.NoError(t, err)
	require.Equal(t, 3, win.Micro())

	count := r.window(train.WindowConfig{Micro: 2, ByCount: true})
	plantest.Compare(t, r.sess, func(s *autograd.Scope) error {
		if err := count.Begin(s, 2, 6); err != nil {
			return err
		}
		for i := range 2 {
			if _, err := count.BackwardMean(s, r.loss(s, 3*i, 3*i+3), 3); err != nil {
				return err
			}
		}
		return nil
	})
}

// Once an update, whatever the number of micro-batches.
func TestScheduleOfAWindow(t *testing.T) {
	r := newRig(t)
	defer r.close()
	cosine, err := optim.NewCosineAnnealing(r.opt, optim.CosineConfig{TMax: 4})
	require.NoError(t, err)
	win := r.window(train.WindowConfig{Micro: 3, Schedule: cosine})
	for i := range 12 {
		require.Equal(t, i/3, cosine.State().Step)
		require.NoError(t, r.adds(win, nil, i))
	}
	require.Equal(t, 4, cosine.State().Step)
	require.InDelta(t, 0, r.opt.LR(0), 1e-12)
}

// fakeScaler is a loss scaler with a fixed factor, which counts what it is asked.
type fakeScaler struct {
	factor   float64
	overflow bool
	calls    []string
}

func (f *fakeScaler) Scale() float64 { return f.factor }

func (f *fakeScaler) Unscale(s *autograd.Scope, opt optim.Optimizer) error {
	f.calls = append(f.calls, "unscale")
	for _, p := range opt.Params() {
		p.SetGradScale(1)
	}
	return optim.ScaleGrad(s, opt.Params(), 1/f.factor)
}

func (f *fakeScaler) ClipGradNorm(s *autograd.Scope, opt optim.Optimizer, maxNorm float64) (float64, error) {
	f.calls = append(f.calls, "clip")
	return maxNorm, nil
}

func (f *fakeScaler) Discard(*autograd.Scope) { f.calls = append(f.calls, "discard") }

func (f *fakeScaler) Step(s *autograd.Scope, opt optim.Optimizer) (bool, error) {
	f.calls = append(f.calls, "step")
	if f.overflow {
		return false, nil
	}
	return true, opt.Step(s)
}

func (f *fakeScaler) Update(*autograd.Scope) error {
	f.calls = append(f.calls, "update")
	return nil
}

// W7: losses are scaled, gradients unscaled before they are looked at; an overflow drops the whole window, gradients and
// the schedule's step included.
func TestScalerOfAWindow(t *testing.T) {
	want := clean(t, 2, []int{0, 1})
	r := newRig(t)
	defer r.close()
	f := &fakeScaler{factor: 1024, overflow: true}
	cosine, err := optim.NewCosineAnnealing(r.opt, optim.CosineConfig{TMax: 4})
	require.NoError(t, err)
	var norms []float64
	win := r.window(train.WindowConfig{Micro: 2, Scaler: f, Schedule: cosine, BeforeStep: func(s *autograd.Scope) error {
		f.calls = append(f.calls, "before step")
		norm, err := optim.ClipGradNorm(s, r.opt.Params(), math.Inf(1))
		norms = append(norms, norm)
		return err
	}})
	before := r.values()
	require.NoError(t, r.step(func(s *autograd.Scope) error {
		for i := range 2 {
			updated, err := r.add(s, win, i)
			require.NoError(t, err)
			require.False(t, updated)
		}
		return nil
	}))
	require.Equal(t, []string{"unscale", "before step", "step", "update"}, f.calls)
	require.Equal(t, before, r.values())
	require.Nil(t, r.w.Grad())
	require.Zero(t, win.Position())
	require.Zero(t, cosine.State().Step)

	f.overflow = false
	require.NoError(t, r.adds(win, nil, 0, 1))
	require.Equal(t, want, r.values(), "a power of two changes no bit")
	require.Equal(t, norms[0], norms[1], "of unscaled gradients")
	require.Equal(t, 1, cosine.State().Step)

	require.NoError(t, r.adds(win, nil, 0))
	f.factor = 512
	require.ErrorContains(t, r.adds(win, nil, 1), "micro-batch 2 of 2: the scaler's factor changed from 1024 to 512 within a window")
}

// Batch norm takes each micro-batch by itself, so the gradient is another; group norm is the way out.
func TestNormsInMicroBatches(t *testing.T) {
	r := newRig(t)
	defer r.close()
	x := r.fixed(t, pixels(4*3*2*2), 4, 3, 2, 2)
	defer x.Release()
	grads := func(m interface {
		Forward(*autograd.Scope, *autograd.Value) *autograd.Value
	}, parts int) (all []float32) {
		params := nn.Params(m)
		require.NoError(t, r.step(func(s *autograd.Scope) error {
			for i := range parts {
				n := 4 / parts
				part, err := x.Slice(0, i*n, (i+1)*n)
				require.NoError(t, err)
				y := m.Forward(s, s.Input(&part))
				ops.Mean(s, ops.Mul(s, ops.Mul(s, y, y), y)).Backward(s, autograd.WithScale(1/float64(parts)))
			}
			for _, p := range params {
				all = append(all, tensor.Data[float32](p.Grad())...)
				p.ZeroGrad()
			}
			return nil
		}))
		return all
	}
	group, err := nn.NewGroupNorm(r.sess, 1, 3)
	require.NoError(t, err)
	require.InDeltaSlice(t, grads(group, 1), grads(group, 2), 1e-6)
	require.InDeltaSlice(t, grads(group, 1), grads(group, 4), 1e-6)
	batch, err := nn.NewBatchNorm(r.sess, 3)
	require.NoError(t, err)
	full, cut := grads(batch, 1), grads(batch, 2)
	apart := 0.0
	for i := range full {
		apart = max(apart, math.Abs(float64(full[i]-cut[i])))
	}
	require.Greater(t, apart, 1e-2)
}

func pixels(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i*i))) * 3
	}
	return x
}
