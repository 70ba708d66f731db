package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

func TestNewWindowRefuses(t *testing.T) {
	r := newRig(t)
	defer r.close()
	for _, k := range []int{0, -2} {
		_, err := train.NewWindow(r.opt, train.WindowConfig{Micro: k})
		require.ErrorContains(t, err, "train: NewWindow: Micro is ")
		require.ErrorContains(t, err, "want 1 or more")
	}
	_, err := train.NewWindow(nil, train.WindowConfig{Micro: 1})
	require.ErrorContains(t, err, "train: NewWindow: the optimizer is nil")
	win := r.window(train.WindowConfig{Micro: 3})
	require.Equal(t, 3, win.Micro())
	require.Zero(t, win.Position())
	require.ErrorContains(t, r.step(func(s *autograd.Scope) error { _, err := win.Backward(s, nil); return err }),
		"train: Window.Backward: micro-batch 1 of 3: the loss is nil")
}

// W1
func TestAWindowIsTheFullBatch(t *testing.T) {
	for _, k := range []int{1, 2, 3, 7} {
		r := newRig(t)
		var full, sum [2][]float64
		grads := func(into *[2][]float64) {
			for i, p := range r.opt.Params() {
				into[i] = append([]float64(nil), tensor.Data[float64](p.Grad())...)
			}
		}
		require.NoError(t, r.step(func(s *autograd.Scope) error {
			r.loss(s, 0, k*micro).Backward(s)
			grads(&full)
			r.opt.ZeroGrad(s)
			return nil
		}))
		win := r.window(train.WindowConfig{Micro: k, BeforeStep: func(*autograd.Scope) error { grads(&sum); return nil }})
		for i := range k {
			require.NoError(t, r.adds(win, nil, i))
		}
		for i := range full {
			require.InDeltaSlice(t, full[i], sum[i], 1e-14, "%d micro-batches", k)
		}
		r.close()
	}
}

// W2
func TestCallsLieInOneStepOrInSeveral(t *testing.T) {
	want := clean(t, 3, []int{0, 1, 2}, []int{3, 4, 5})
	for _, cut := range [][][]int{
		{{0, 1, 2, 3, 4, 5}},
		{{0}, {1}, {2}, {3}, {4}, {5}},
		{{0, 1}, {2, 3}, {4, 5}},
		{{0, 1, 2, 3}, {4}, {5}},
	} {
		r := newRig(t)
		win := r.window(train.WindowConfig{Micro: 3})
		for _, is := range cut {
			require.NoError(t, r.step(func(s *autograd.Scope) error {
				for _, i := range is {
					updated, err := r.add(s, win, i)
					require.NoError(t, err)
					require.Equal(t, i%3 == 2, updated)
					require.Equal(t, (i+1)%3, win.Position())
					require.EqualValues(t, (i+1)/3, r.count())
					require.Equal(t, updated, r.w.Grad() == nil)
				}
				return nil
			}))
		}
		require.Equal(t, want, r.values(), "bit for bit, %v", cut)
		r.close()
	}
}

func TestAccumulatingTakesNoMemory(t *testing.T) {
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 9})
	owned := r.dev.Stats().Live
	var peak int64
	for i := range 8 {
		r.dev.ResetPeak()
		require.NoError(t, r.adds(win, nil, i))
		require.Equal(t, owned+8*(features+1), r.dev.Stats().Live, "the gradients, and nothing else")
		if i > 0 {
			require.Equal(t, peak, r.dev.Stats().Peak)
		}
		peak = r.dev.Stats().Peak
	}
}

// W3
func TestGradientsOfOthersAreRefused(t *testing.T) {
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 2})
	require.NoError(t, r.step(func(s *autograd.Scope) error { r.loss(s, 0, 1).Backward(s); return nil }))
	require.ErrorContains(t, r.adds(win, nil, 0), "micro-batch 1 of 2: w has a gradient that this window did not make: call ZeroGrad")
	require.NoError(t, r.step(func(s *autograd.Scope) error { r.opt.ZeroGrad(s); return nil }))
	require.NoError(t, r.adds(win, nil, 0, 1, 2, 3))
	require.Equal(t, clean(t, 2, []int{0, 1}, []int{2, 3}), r.values())
}

// W4, in one step
func TestAWindowThatFailsInOneStep(t *testing.T) {
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 3})
	before, live := r.values(), r.dev.Stats().Live
	require.ErrorIs(t, r.step(func(s *autograd.Scope) error {
		_, err := r.add(s, win, 0)
		require.NoError(t, err)
		_, err = r.add(s, win, 1)
		require.NoError(t, err)
		require.Equal(t, 2, win.Position())
		return errMine
	}), errMine)
	require.Zero(t, win.Position())
	require.Equal(t, before, r.values())
	require.Equal(t, live, r.dev.Stats().Live)
	require.NoError(t, r.adds(win, nil, 0, 1, 2))
	require.Equal(t, clean(t, 3, []int{0, 1, 2}), r.values())
}

// W4 and W5, across steps
func TestAWindowThatFailsAcrossSteps(t *testing.T) {
	want := clean(t, 3, []int{0, 1, 2})

	t.Run("before the gradients were touched", func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		win := r.window(train.WindowConfig{Micro: 3})
		require.NoError(t, r.adds(win, nil, 0))
		require.ErrorIs(t, r.step(func(s *autograd.Scope) error { r.loss(s, 0, 1); return errMine }), errMine)
		require.Equal(t, 1, win.Position())
		require.NoError(t, r.adds(win, nil, 1))
		require.NoError(t, r.adds(win, nil, 2))
		require.Equal(t, want, r.values())
	})
	t.Run("after", func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		win := r.window(train.WindowConfig{Micro: 3})
		require.NoError(t, r.adds(win, nil, 0))
		require.ErrorIs(t, r.adds(win, errMine, 1), errMine)
		require.Equal(t, 1, win.Position())
		require.ErrorContains(t, r.adds(win, nil, 1),
			"train: Window.Backward: micro-batch 2 of 3: the gradient of w was left half added by a failed step: call Discard")
		require.NoError(t, r.step(func(s *autograd.Scope) error { win.Discard(s); return nil }))
		require.Zero(t, win.Position())
		require.Nil(t, r.w.Grad())
		require.NoError(t, r.adds(win, nil, 0))
		require.NoError(t, r.adds(win, nil, 1))
		require.NoError(t, r.adds(win, nil, 2))
		require.Equal(t, want, r.values())
	})
	t.Run("discarded in the step that begins anew", func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		win := r.window(train.WindowConfig{Micro: 3})
		require.NoError(t, r.adds(win, nil, 0))
		require.ErrorIs(t, r.adds(win, errMine, 1), errMine)
		anew := func(end error) error {
			return r.step(func(s *autograd.Scope) error {
				win.Discard(s)
				_, err := r.add(s, win, 0)
				require.NoError(t, err)
				return end
			})
		}
		require.ErrorIs(t, anew(errMine), errMine)
		require.Zero(t, win.Position(), "the gradients are gone: so is the position")
		require.Nil(t, r.w.Grad())
		require.NoError(t, anew(nil))
		require.NoError(t, r.adds(win, nil, 1, 2))
		require.Equal(t, want, r.values())
	})
}

// W4: the update stays done
func TestAnUpdateInAFailedStepStaysDone(t *testing.T) {
	one := clean(t, 3, []int{0, 1, 2})
	for _, c := range []struct {
		before, in []int
	}{
		{nil, []int{0, 1, 2}},
		{[]int{0, 1}, []int{2}},
		{[]int{0, 1}, []int{2, 3}},
		{[]int{0}, []int{1, 2, 3, 4}},
	} {
		r := newRig(t)
		win := r.window(train.WindowConfig{Micro: 3})
		require.NoError(t, r.adds(win, nil, c.before...))
		require.ErrorIs(t, r.adds(win, errMine, c.in...), errMine)
		require.Zero(t, win.Position(), "%v", c)
		require.Equal(t, one, r.values(), "%v", c)
		require.EqualValues(t, 1, r.count())
		require.NoError(t, r.adds(win, nil, 3))
		require.NoError(t, r.adds(win, nil, 4, 5))
		require.Equal(t, clean(t, 3, []int{0, 1, 2}, []int{3, 4, 5}), r.values(), "%v", c)
		r.close()
	}
}

func TestTwoUpdatesInAFailedStep(t *testing.T) {
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 2})
	require.NoError(t, r.adds(win, nil, 0))
	require.ErrorIs(t, r.adds(win, errMine, 1, 2, 3, 4), errMine)
	require.Zero(t, win.Position())
	require.Equal(t, clean(t, 2, []int{0, 1}, []int{2, 3}), r.values())
}

// M2, over a whole window
func TestEveryFailedAllocationLeavesTheWindowAsItWas(t *testing.T) {
	want := clean(t, 2, []int{0, 1}, []int{2, 3})
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 2, BeforeStep: func(s *autograd.Scope) error {
		_, err := optim.ClipGradNorm(s, r.opt.Params(), 1e9)
		return err
	}})
	for k := range 2 {
		before, live := r.values(), r.dev.Stats().Live
		for at := int64(1); ; at++ {
			r.dev.FailAt(at)
			err := r.adds(win, nil, 2*k, 2*k+1)
			r.dev.FailAt(0)
			if err == nil {
				require.Greater(t, at, int64(10))
				break
			}
			var oom *memory.OOMError
			require.ErrorAs(t, err, &oom, "allocation %d", at)
			require.Equal(t, live, r.dev.Stats().Live)
			require.Equal(t, before, r.values())
			require.Zero(t, win.Position())
			require.EqualValues(t, k, r.count())
		}
	}
	require.Equal(t, want, r.values())
}

func TestAPlanRunsTheWholeWindow(t *testing.T) {
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 3})
	plantest.Compare(t, r.sess, func(s *autograd.Scope) error {
		for i := range 3 {
			updated, err := r.add(s, win, i)
			require.NoError(t, err)
			require.Equal(t, i == 2, updated)
		}
		return nil
	})
	require.EqualValues(t, 2, r.count())

	// a dry run within a window, over its end, and one that fails
	require.NoError(t, r.adds(win, nil, 0))
	grad := append([]float64(nil), tensor.Data[float64](r.w.Grad())...)
	before := r.values()
	for _, end := range []error{nil, errMine} {
		_, err := r.sess.Plan(func(s *autograd.Scope) error {
			for i := range 4 {
				_, err := r.add(s, win, i)
				require.NoError(t, err)
			}
			return end
		}, autograd.PlanConfig{Steps: 2})
		require.ErrorIs(t, err, end)
		require.Equal(t, 1, win.Position())
		require.Equal(t, before, r.values())
		require.Equal(t, grad, tensor.Data[float64](r.w.Grad()))
		require.EqualValues(t, 2, r.count())
	}
	_, err := r.sess.Plan(func(s *autograd.Scope) error { win.Discard(s); return nil }, autograd.PlanConfig{})
	require.NoError(t, err)
	require.Equal(t, 1, win.Position())

	// a real step that fails after a dry run over the window's end still goes back to 1
	require.ErrorIs(t, r.step(func(s *autograd.Scope) error { win.Discard(s); return errMine }), errMine)
	require.Zero(t, win.Position())
	require.NoError(t, r.adds(win, nil, 0))
	require.ErrorIs(t, r.adds(win, errMine, 1), errMine)
	require.Equal(t, 1, win.Position())
}

func TestBeforeStep(t *testing.T) {
	r := newRig(t)
	defer r.close()
	fail := true
	var norms []float64
	win := r.window(train.WindowConfig{Micro: 2, BeforeStep: func(s *autograd.Scope) error {
		if fail {
			return errMine
		}
		norm, err := optim.ClipGradNorm(s, r.opt.Params(), 1)
		norms = append(norms, norm)
		return err
	}})
	err := r.adds(win, nil, 0, 1)
	require.ErrorIs(t, err, errMine)
	require.ErrorContains(t, err, "train: Window.Backward: BeforeStep: mine")
	require.Zero(t, win.Position())
	require.Zero(t, r.count())

	// its error is swallowed: the window stays full until Discard
	require.NoError(t, r.step(func(s *autograd.Scope) error {
		_, err := r.add(s, win, 0)
		require.NoError(t, err)
		_, err = r.add(s, win, 1)
		require.ErrorIs(t, err, errMine)
		_, err = r.add(s, win, 2)
		require.ErrorContains(t, err, "the window is full, its update failed: call Discard")
		win.Discard(s)
		return nil
	}))
	fail = false
	require.NoError(t, r.adds(win, nil, 0, 1))
	require.Len(t, norms, 1)
	require.Positive(t, norms[0])
	require.EqualValues(t, 1, r.count())
}

func TestErrorsOfTheOptimizerComeThrough(t *testing.T) {
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 2})
	require.NoError(t, r.adds(win, nil, 0))
	require.NoError(t, r.opt.Close())
	require.ErrorContains(t, r.adds(win, nil, 1), "train: Window.Backward: optim: AdamW.Step: the optimizer is closed")
	require.Equal(t, 1, win.Position())
}
