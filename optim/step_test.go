package optim_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

var errMine = errors.New("mine")

func TestAParameterWithoutGradientIsSkipped(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	often, seldom, alone := r.vec("often", 1), r.vec("seldom", 2), r.vec("alone", 2)
	cfg := optim.AdamWConfig{LR: 0.1, WeightDecay: 0.5}
	both, one := mustAdamW(t, cfg, often, seldom), mustAdamW(t, cfg, alone)
	r.update(both, []float64{1}, []float64{3})
	r.update(both, []float64{1}, nil)
	r.update(both, []float64{1}, []float64{-4})
	r.update(both, nil, nil)
	r.update(one, []float64{3})
	r.update(one, []float64{-4})
	require.Equal(t, val(alone), val(seldom), "no decay, no moments and no count without a gradient")
	require.Equal(t, []int64{3, 2}, steps(t, both))

	// zeros are a gradient
	before := val(seldom)
	r.update(both, nil, []float64{0})
	require.NotEqual(t, before, val(seldom))
}

func TestFirstMomentumIsPerParameter(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, b := r.vec("a", 0), r.vec("b", 0)
	opt := mustSGD(t, optim.SGDConfig{LR: 1, Momentum: 0.5, Dampening: 0.9}, a, b)
	r.update(opt, []float64{8}, nil)
	r.update(opt, []float64{0}, []float64{8})
	require.InDeltaSlice(t, []float64{-8 - 4}, val(a), 1e-12)
	require.InDeltaSlice(t, []float64{-8}, val(b), 1e-12, "its first step is not dampened")
}

func TestGradientsAreOnlyRead(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a := r.vec("a", 1, 2)
	for _, opt := range []optim.Optimizer{
		mustSGD(t, optim.SGDConfig{LR: 1, Momentum: 0.9, WeightDecay: 1, Maximize: true}, a),
		mustAdamW(t, optim.AdamWConfig{LR: 1, WeightDecay: 1, Maximize: true}, a),
	} {
		r.ok(func(s *autograd.Scope) {
			r.push(s, a, 3, -4)
			require.NoError(t, opt.Step(s))
			require.Equal(t, []float64{3, -4}, values(a.Grad()))
			require.Zero(t, a.Grad().Version())
			opt.ZeroGrad(s)
			require.Nil(t, a.Grad())
			require.Zero(t, r.dev.Stats().LiveByKind[memory.Grad])
		})
	}
}

func TestAStepRaisesTheVersion(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, b := r.vec("a", 1), r.vec("b", 1)
	opt := mustSGD(t, optim.SGDConfig{LR: 1}, a, b)
	err := r.step(func(s *autograd.Scope) error {
		loss := autograd.Apply(s, mulOp{}, a.Value(), a.Value())
		r.push(s, a, 1)
		require.NoError(t, opt.Step(s))
		loss.Backward(s)
		return nil
	})
	require.ErrorContains(t, err, "parameter a float64[1], which is input 1 of testmul")
	require.ErrorContains(t, err, "modified by an inplace operation")
	require.Zero(t, b.Tensor().Version(), "skipped")
}

// mulOp is a*b whose gradient reads both.
type mulOp struct{ dotOp }

var mulRule = &autograd.Rule{Name: "testmul", Reads: [][]autograd.Ref{{autograd.In(1)}, {autograd.In(0)}}}

func (mulOp) Rule() *autograd.Rule { return mulRule }

func TestLearningRateZeroStopsDecayToo(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, b := r.vec("a", 1), r.vec("b", 1)
	adam := mustAdamW(t, optim.AdamWConfig{LR: 0.1, WeightDecay: 0.5}, a)
	sgd := mustSGD(t, optim.SGDConfig{LR: 0.1, WeightDecay: 0.5}, b)
	require.NoError(t, adam.SetLR(0, 0))
	require.NoError(t, sgd.SetLR(0, 0))
	r.update(adam, []float64{1})
	r.update(sgd, []float64{1})
	require.Equal(t, []float64{1}, val(a))
	require.Equal(t, []float64{1}, val(b))
	require.Equal(t, []int64{1}, steps(t, adam), "it is a step all the same")

	for _, lr := range []float64{-1, math.NaN(), math.Inf(1)} {
		require.ErrorContains(t, adam.SetLR(0, lr), fmt.Sprintf("optim: AdamW.SetLR: LR is %v", lr))
	}
	require.ErrorContains(t, adam.SetLR(1, 1), "group 1: want 0 to 0")
	require.ErrorContains(t, adam.SetLR(-1, 1), "group -1: want 0 to 0")
	require.Zero(t, adam.LR(0))
}

func TestGroupsAreLikeOptimizersOfTheirOwn(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, b := r.vec("a", 1, -2), r.vec("b", 3)
	a1, b1 := r.vec("a1", 1, -2), r.vec("b1", 3)
	decay, plain := optim.AdamWConfig{LR: 0.1, WeightDecay: 0.5}, optim.AdamWConfig{LR: 0.01, Betas: optim.Betas(0, 0.9), Maximize: true}
	grouped, err := optim.NewAdamWGroups(
		optim.AdamWGroup{Params: []*autograd.Param{a}, Config: decay},
		optim.AdamWGroup{Params: []*autograd.Param{b}, Config: plain},
	)
	require.NoError(t, err)
	one, two := mustAdamW(t, decay, a1), mustAdamW(t, plain, b1)
	for k := range 3 {
		if k == 2 {
			require.NoError(t, grouped.SetLR(1, 0.5))
			require.NoError(t, two.SetLR(0, 0.5))
		}
		ga, gb := wave(2, uint64(k)), wave(1, uint64(k+9))
		r.update(grouped, ga, gb)
		r.update(one, ga)
		r.update(two, gb)
	}
	require.Equal(t, val(a1), val(a))
	require.Equal(t, val(b1), val(b))
	require.Equal(t, 2, grouped.Groups())
	require.Equal(t, 0.1, grouped.LR(0))
	require.Equal(t, 0.5, grouped.LR(1))
}

func TestStaleGradientsAreRefused(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	a, b := r.vec("a", 1), r.vec("b", 1)
	opt := mustAdamW(t, optim.AdamWConfig{LR: 0.1}, a, b)
	r.ok(func(s *autograd.Scope) { r.push(s, a, 1); r.push(s, b, 1) })
	require.ErrorIs(t, r.step(func(s *autograd.Scope) error { r.push(s, b, 1); return errMine }), errMine)
	err := r.step(opt.Step)
	require.ErrorContains(t, err, "optim: AdamW.Step: the gradient of b was left half added by a failed step: call ZeroGrad")
	require.Equal(t, []float64{1}, val(a), "wholly or not at all")
	require.Equal(t, []int64{0, 0}, steps(t, opt))
	err = r.step(func(s *autograd.Scope) error { _, err := optim.ClipGradNorm(s, opt.Params(), 1); return err })
	require.ErrorContains(t, err, "optim: ClipGradNorm: the gradient of b was left half added")
	r.ok(func(s *autograd.Scope) { opt.ZeroGrad(s) })
	r.update(opt, []float64{1}, []float64{1})
}

func TestScopeOfAnotherSession(t *testing.T) {
	r, other := plainRig(t), plainRig(t)
	defer r.close()
	defer other.close()
	a := r.vec("a", 1)
	opt := mustSGD(t, optim.SGDConfig{LR: 1}, a)
	require.ErrorContains(t, other.step(opt.Step), "another session")
	require.ErrorContains(t, other.step(func(s *autograd.Scope) error {
		_, err := optim.ClipGradNorm(s, opt.Params(), 1)
		return err
	}), "parameter 0, a, is of another session")
	var ended *autograd.Scope
	r.ok(func(s *autograd.Scope) {
		r.push(s, a, 1)
		s.Do("in", func(s *autograd.Scope) *autograd.Value { ended = s; return nil })
	})
	require.ErrorContains(t, r.step(func(*autograd.Scope) error { return opt.Step(ended) }), `the scope "in" has ended`)
	require.Equal(t, []int64{0}, steps(t, opt))
}

// training is a little of everything that a step does with an optimizer.
type training struct {
	r     *rig
	opt   *optim.AdamW
	sched *optim.CosineAnnealing
	k     int
}

func newTraining(t *testing.T, r *rig) *training {
	var ps []*autograd.Param
	for i, n := range []int{5, 16384*2 + 3, 100} {
		ps = append(ps, r.param(fmt.Sprint("p", i), tensor.Float32, wave(n, uint64(i)), n))
	}
	opt, err := optim.NewAdamWGroups(
		optim.AdamWGroup{Params: ps[:2], Config: optim.AdamWConfig{LR: 0.1, WeightDecay: 0.1}},
		optim.AdamWGroup{Params: ps[2:], Config: optim.AdamWConfig{LR: 0.2}},
	)
	require.NoError(t, err)
	sched, err := optim.NewCosineAnnealing(opt, optim.CosineConfig{TMax: 10})
	require.NoError(t, err)
	return &training{r: r, opt: opt, sched: sched}
}

func (tr *training) step(s *autograd.Scope) error {
	for i, p := range tr.opt.Params() {
		if i != 2 || tr.k > 0 { // the last has no gradient at first
			tr.r.push(s, p, wave(p.Spec().Elems(), uint64(50+10*tr.k+i))...)
		}
	}
	if _, err := optim.ClipGradNorm(s, tr.opt.Params(), 0.5); err != nil {
		return err
	}
	if err := tr.opt.Step(s); err != nil {
		return err
	}
	autograd.Journal(s.Session(), &tr.k)
	tr.k++
	tr.opt.ZeroGrad(s)
	return tr.sched.Step()
}

// look is all that a step may change.
func (tr *training) look(t *testing.T) any {
	t.Helper()
	var params [][]float64
	for _, p := range tr.opt.Params() {
		params = append(params, val(p))
	}
	d, err := tr.opt.StateDict()
	require.NoError(t, err)
	var state []any
	for _, p := range d.Params {
		state = append(state, p.Step, values(p.Tensors["exp_avg"]), values(p.Tensors["exp_avg_sq"]))
	}
	return []any{params, state, d.Groups, tr.sched.State(), tr.k}
}

func TestDryRunIsTheRealRun(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		r := newRig(t, 2, memory.Config{Virtual: virtual})
		tr := newTraining(t, r)
		require.Empty(t, plantest.Compare(t, r.sess, tr.step).Reads)
		require.Equal(t, 2, tr.k)
		require.Equal(t, []int64{2, 2, 1}, steps(t, tr.opt))
		require.Empty(t, plantest.Compare(t, r.sess, tr.step).Reads)
		r.close()
	}
}

func TestADryRunLeavesNoTrace(t *testing.T) {
	r := plainRig(t)
	defer r.close()
	tr := newTraining(t, r)
	r.ok(func(s *autograd.Scope) { require.NoError(t, tr.step(s)) })
	before := tr.look(t)
	for _, end := range []error{nil, errMine} {
		_, err := r.sess.Plan(func(s *autograd.Scope) error {
			require.NoError(t, tr.step(s))
			require.NoError(t, tr.opt.SetLR(1, 7))
			require.Greater(t, steps(t, tr.opt)[0], int64(1))
			return end
		}, autograd.PlanConfig{Steps: 3})
		require.ErrorIs(t, err, end)
		require.Equal(t, before, tr.look(t))
	}
}

func TestACompletedStepStaysDone(t *testing.T) {
	r, twin := plainRig(t), plainRig(t)
	defer r.close()
	defer twin.close()
	tr, want := newTraining(t, r), newTraining(t, twin)
	twin.ok(func(s *autograd.Scope) { require.NoError(t, want.step(s)) })
	err := r.step(func(s *autograd.Scope) error {
		require.NoError(t, tr.step(s))
		require.NoError(t, tr.opt.SetLR(0, 9))
		return errMine
	})
	require.ErrorIs(t, err, errMine)
	require.Equal(t, []int64{1, 1, 0}, steps(t, tr.opt))
	for i, p := range tr.opt.Params() {
		require.Equal(t, val(want.opt.Params()[i]), val(p))
	}
	require.Equal(t, []float64{0.1, 0.2}, tr.sched.LR(), "rates and schedules are put back")
	require.Zero(t, tr.sched.State().Step)
}

func TestEveryFailedAllocationLeavesTheOptimizerAsItWas(t *testing.T) {
	twin := plainRig(t)
	defer twin.close()
	clean := newTraining(t, twin)
	var n uint64
	for range 3 {
		before := twin.dev.Stats().Allocs
		twin.ok(func(s *autograd.Scope) { require.NoError(t, clean.step(s)) })
		n = twin.dev.Stats().Allocs - before
	}
	want := clean.look(t)

	r := plainRig(t)
	defer r.close()
	tr := newTraining(t, r)
	for k := range 3 {
		before, live := tr.look(t), r.dev.Stats().Live
		at := int64(1)
		for ; ; at++ {
			r.dev.FailAt(at)
			err := r.step(func(s *autograd.Scope) (err error) {
				s.OnClose(func() { r.dev.FailAt(0) }) // the allocations between steps are the test's
				return tr.step(s)
			})
			if err == nil {
				break // the step has gone through
			}
			var oom *memory.OOMError
			require.ErrorAs(t, err, &oom, "step %d, allocation %d", k, at)
			require.Equal(t, live, r.dev.Stats().Live)
			require.Equal(t, before, tr.look(t))
		}
		if k == 2 {
			require.EqualValues(t, n+1, at)
		}
	}
	require.Equal(t, want, tr.look(t))
}

func TestBitsDoNotDependOnWorkers(t *testing.T) {
	var want any
	for _, workers := range []int{1, 2, 7} {
		r := newRig(t, workers, memory.Config{})
		tr := newTraining(t, r)
		for range 4 {
			r.ok(func(s *autograd.Scope) { require.NoError(t, tr.step(s)) })
		}
		got := tr.look(t)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, "%d workers", workers)
		r.close()
	}
}
