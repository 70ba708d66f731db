package checkpoint_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// watermark counts bytes of the kinds that live within a step.
type watermark struct {
	bufs              map[uint64]memory.Event
	live, act         int64
	peak, activations int64
}

func (w *watermark) event(e memory.Event) {
	if old, ok := w.bufs[e.ID]; ok && (e.Act == memory.Free || e.Act == memory.SetKind) {
		delete(w.bufs, e.ID)
		w.add(old, -1)
	}
	switch e.Kind {
	case memory.Activation, memory.Temporary, memory.Scratch, memory.CastCopy:
		if e.Act == memory.Alloc || e.Act == memory.SetKind {
			w.bufs[e.ID] = e
			w.add(e, 1)
		}
	}
	w.peak, w.activations = max(w.peak, w.live), max(w.activations, w.act)
}

func (w *watermark) add(e memory.Event, sign int64) {
	w.live += sign * e.Bytes
	if e.Kind == memory.Activation {
		w.act += sign * e.Bytes
	}
}

// dryChain is the watermark of a dry run of the blocks by schedule sc.
func dryChain(r *rig, ln checkpoint.Line, sc checkpoint.Schedule, opts ...checkpoint.Option) *watermark {
	r.t.Helper()
	return dryPasses(r, ln, sc, 1, opts...)
}

// dryPasses is dryChain with several backward passes over the graph.
func dryPasses(r *rig, ln checkpoint.Line, sc checkpoint.Schedule, passes int, opts ...checkpoint.Option) *watermark {
	r.t.Helper()
	w := &watermark{bufs: map[uint64]memory.Event{}}
	var fs []nn.Forward
	for i, b := range ln.Blocks {
		fs = append(fs, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			y := s.Do("block", func(s *autograd.Scope) *autograd.Value { return b.Forward(s, x) })
			if i > 0 {
				s.Free(x)
			}
			return y
		})
	}
	_, err := r.sess.Plan(func(s *autograd.Scope) error {
		x, err := tensor.Zeros(r.dev, memory.Input, site, ln.Input)
		if err != nil {
			return err
		}
		defer x.Release()
		v := s.Input(x).RequireGrad()
		old := r.dev.SetTrace(w.event)
		defer func() { r.dev.SetTrace(old) }()
		y := checkpoint.Chain(func(int) checkpoint.Schedule { return sc }, opts...)(s, v, fs)
		sum := s.Do("head", func(s *autograd.Scope) *autograd.Value { return headOp(s, y) })
		for range passes - 1 {
			sum.Backward(s, autograd.RetainGraph())
		}
		sum.Backward(s)
		return nil
	}, autograd.PlanConfig{Steps: 1})
	require.NoError(r.t, err)
	return w
}

func gptLine(r *rig, layers int) checkpoint.Line {
	m, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 7, Context: 8, Dim: 16, Heads: 2, Layers: layers, Dropout: 0.1})
	require.NoError(r.t, err)
	return checkpoint.LineOf(m.Blocks, tensor.Of(tensor.Float32, 2, 8, 16))
}

// randomSchedule makes a schedule of n blocks.
func randomSchedule(dice *rand.Rand, n int) (sc checkpoint.Schedule) {
	for n > 0 {
		k := 1 + dice.IntN(n)
		switch dice.IntN(4) {
		case 0:
			sc = append(sc, checkpoint.Step{Blocks: k})
		case 1:
			k = 1
			sc = append(sc, checkpoint.Step{Inner: checkpoint.Schedule{{Blocks: 1}}, Policy: checkpoint.DearOnly})
		default:
			if k == n && k > 1 {
				k--
			}
			sc = append(sc, checkpoint.Step{Inner: randomSchedule(dice, k)})
		}
		n -= k
	}
	return sc
}

// What Estimate says of activations is what a dry run of the chain finds, to the byte; its peak is never too small.
func TestEstimateIsTheDryRun(t *testing.T) {
	r := newRig(t)
	defer r.close()
	const n = 9
	ln := gptLine(r, n)
	costs, err := checkpoint.Measure(r.sess, ln)
	require.NoError(t, err)
	dice := rand.New(rand.NewPCG(5, 6))
	list := []checkpoint.Schedule{checkpoint.All(n), checkpoint.PerBlock(n), checkpoint.Sqrt(n), checkpoint.Segments(2)(n), checkpoint.Recursive(n), deep(n)}
	for range 40 {
		list = append(list, randomSchedule(dice, n))
	}
	for _, sc := range list {
		e, w := sc.Estimate(costs), dryChain(r, ln, sc)
		require.Equal(t, w.activations, e.Activations, "%s", sc)
		require.GreaterOrEqual(t, e.Peak+4, w.peak, "%s (4 bytes are the sum behind the chain)", sc)
	}
}

// On 32 blocks, by the formulas of uniform chains: with x the bytes of a block's input and a what a block saves beside it.
func TestFormulas(t *testing.T) {
	r := newRig(t)
	defer r.close()
	const (
		n                = 32
		B, T, C, H       = 2, 8, 16, 2
		x, a       int64 = B * T * C * 4, (15*B*T*C + B*T*(H+4)) * 4
	)
	ln := gptLine(r, n)
	activations := func(sc checkpoint.Schedule) int64 { return dryChain(r, ln, sc).activations }
	none := activations(checkpoint.All(n))
	require.Equal(t, n*a+(n-1)*x, none)
	// k regions of l blocks: the inputs of the other regions, and one region whole.
	segments := func(k, l int64) int64 { return (k-1)*x + l*a + (l-1)*x }
	for _, c := range []struct {
		name     string
		schedule checkpoint.Schedule
		want     int64
		most     float64
	}{
		{"per block", checkpoint.PerBlock(n), segments(32, 1), 0.15},
		{"sqrt", checkpoint.Sqrt(n), segments(2, 6), 0.23}, // 6 6 5 5 5 5: the second one
		{"best uniform", checkpoint.Segments(16)(n), segments(16, 2), 0.125},
		{"recursive", checkpoint.Recursive(n), 5*x + a, 0.07},
	} {
		got := activations(c.schedule)
		t.Logf("%s: %d, %.4f of none", c.name, got, float64(got)/float64(none))
		require.Equal(t, c.want, got, c.name)
		require.LessOrEqual(t, float64(got), c.most*float64(none), c.name)
	}
	for k := 1; k <= n; k++ {
		if n%k == 0 {
			require.Equal(t, segments(int64(k), int64(n/k)), activations(checkpoint.Segments(k)(n)))
		}
	}
}

// Dear only keeps at most 10 B T C + B T (H + 4) elements a block, its input included.
func TestDearOnlyKeeps(t *testing.T) {
	const B, T, C, H = 2, 8, 16, 2
	for _, dropout := range []float64{0, 0.1} { // without dropout the residual add is written over a kept output
		r := newRig(t)
		m, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 7, Context: T, Dim: C, Heads: H, Layers: 1, Dropout: dropout})
		require.NoError(t, err)
		costs, err := checkpoint.Measure(r.sess, checkpoint.LineOf(m.Blocks, tensor.Of(tensor.Float32, B, T, C)))
		require.NoError(t, err)
		c := costs[0]
		require.EqualValues(t, 4*(9*B*T*C+B*T*H), c.Dear.Keeps)
		require.LessOrEqual(t, c.In+c.Dear.Keeps, int64(4*(10*B*T*C+B*T*(H+4))))
		require.EqualValues(t, 4*(15*B*T*C+B*T*(H+4)), c.All.Keeps)
		require.Zero(t, c.Region.Keeps)
		require.LessOrEqual(t, c.Dear.Backward.Activations, c.All.Backward.Activations+4*B*T*C)
		r.close()
	}
}

// C8 in bytes: passes over a retained graph have the peak of a single one, where that has all outermost inputs in it.
func TestRetainedPassesInBytes(t *testing.T) {
	r := newRig(t)
	defer r.close()
	ln := gptLine(r, 6)
	one, dear := checkpoint.Step{Inner: checkpoint.All(1)}, checkpoint.Step{Inner: checkpoint.All(1), Policy: checkpoint.DearOnly}
	three := func(st checkpoint.Step) checkpoint.Step {
		return checkpoint.Step{Inner: checkpoint.Schedule{st, st, st}}
	}
	for _, sc := range []checkpoint.Schedule{
		checkpoint.PerBlock(6), checkpoint.Sqrt(6), deep(6), {three(one), three(one)}, {three(dear), three(dear)},
	} {
		require.Equal(t, dryPasses(r, ln, sc, 1).activations, dryPasses(r, ln, sc, 3).activations, "%s", sc)
	}
}

// Everything is the plain run, to the byte; each second block is half of each.
func TestPoliciesInBytes(t *testing.T) {
	r := newRig(t)
	defer r.close()
	const n = 6
	ln := gptLine(r, n)
	second, err := checkpoint.EveryKth(2)
	require.NoError(t, err)
	_, err = checkpoint.EveryKth(0)
	require.ErrorContains(t, err, "EveryKth(0): want 1 or more")
	_, err = checkpoint.Scopes("a/b")
	require.ErrorContains(t, err, `"a/b": want one part of a scope's path`)
	activations := func(p checkpoint.Policy) int64 {
		return dryChain(r, ln, checkpoint.PerBlock(n), checkpoint.With(p)).activations
	}
	all := dryChain(r, ln, checkpoint.All(n)).activations
	require.Equal(t, all, activations(checkpoint.Everything))
	require.Equal(t, dryChain(r, ln, checkpoint.PerBlock(n)).activations, activations(checkpoint.Nothing))
	one := checkpoint.Step{Inner: checkpoint.All(1)}
	half := checkpoint.Schedule{one, {Blocks: 1}, one, {Blocks: 1}, one, {Blocks: 1}}
	require.Equal(t, dryChain(r, ln, half).activations, activations(second))
	attention, err := checkpoint.Scopes("attn")
	require.NoError(t, err)
	require.Less(t, activations(attention), all)
	require.Greater(t, activations(attention), activations(checkpoint.DearOnly))
}

// Under autocast what is kept is half as large, and the estimate knows.
func TestMeasureUnderAutocast(t *testing.T) {
	r := newRig(t)
	defer r.close()
	ln := gptLine(r, 2)
	plain, err := checkpoint.Measure(r.sess, ln)
	require.NoError(t, err)
	ln.Around = func(s *autograd.Scope) *autograd.Scope { return s.WithAutocast(amp.BFloat16) }
	low, err := checkpoint.Measure(r.sess, ln)
	require.NoError(t, err)
	require.Less(t, low[0].All.Keeps, plain[0].All.Keeps)
	require.Greater(t, low[0].All.Keeps, plain[0].All.Keeps/3)
}

// randomCosts makes a chain of blocks that differ.
func randomCosts(dice *rand.Rand, n int) (costs []checkpoint.Cost) {
	in := 50 + dice.Int64N(500)
	for range n {
		out := 50 + dice.Int64N(500)
		keeps, dear := dice.Int64N(4000), int64(0)
		if keeps > 0 {
			dear = dice.Int64N(keeps)
		}
		f, cheap := 10+dice.Int64N(100), dice.Int64N(30)
		forward := checkpoint.Phase{Peak: out + dice.Int64N(500), Time: time.Duration(f)}
		full := checkpoint.Phase{Peak: keeps + out + dice.Int64N(500), Time: time.Duration(f)}
		backward := func(more int64) checkpoint.Phase {
			return checkpoint.Phase{Peak: keeps + in + out + dice.Int64N(500), Time: time.Duration(2*f + more)}
		}
		costs = append(costs, checkpoint.Cost{In: in, Out: out,
			All:    checkpoint.Menu{Keeps: keeps, Forward: full, Backward: backward(0)},
			Dear:   checkpoint.Menu{Keeps: dear, Forward: full, Backward: backward(cheap)},
			Region: checkpoint.Menu{Forward: forward, Backward: backward(f)},
		})
		in = out
	}
	return costs
}

// every goes through all schedules of n blocks that the program chooses from, regions at the end of an interval left out,
// since their blocks could as well be there without.
func every(n int, yield func(checkpoint.Schedule)) {
	if n == 0 {
		yield(nil)
		return
	}
	then := func(st checkpoint.Step, rest int) {
		every(rest, func(sc checkpoint.Schedule) { yield(append(checkpoint.Schedule{st}, sc...)) })
	}
	then(checkpoint.Step{Blocks: 1}, n-1)
	then(checkpoint.Step{Inner: checkpoint.Schedule{{Blocks: 1}}, Policy: checkpoint.DearOnly}, n-1)
	for k := 1; k < n; k++ {
		every(k, func(inner checkpoint.Schedule) { then(checkpoint.Step{Inner: inner}, n-k) })
	}
}

// The program against all schedules there are.
func TestSolveIsBruteForce(t *testing.T) {
	most := 7
	if testing.Short() {
		most = 5
	}
	dice := rand.New(rand.NewPCG(7, 8))
	for n := 1; n <= most; n++ {
		for range max(1, 12>>n) {
			costs := randomCosts(dice, n)
			bruteForce(t, costs, dice)
		}
	}
}

func bruteForce(t *testing.T, costs []checkpoint.Cost, dice *rand.Rand) {
	t.Helper()
	var all []checkpoint.Estimate
	every(len(costs), func(sc checkpoint.Schedule) { all = append(all, sc.Estimate(costs)) })
	least, whole := all[0].Peak, checkpoint.All(len(costs)).Estimate(costs).Peak
	for _, e := range all {
		least = min(least, e.Peak)
	}
	for range 20 {
		budget := least + dice.Int64N(whole-least+1)
		best := time.Duration(1 << 62)
		for _, e := range all {
			if e.Peak <= budget {
				best = min(best, e.Time)
			}
		}
		fit, err := checkpoint.Solve(costs, budget)
		require.NoError(t, err)
		require.LessOrEqual(t, fit.Estimate.Peak, budget)
		require.LessOrEqual(t, float64(fit.Estimate.Time), 1.02*float64(best))
		require.GreaterOrEqual(t, fit.Estimate.Time, best)
		require.Equal(t, len(costs), fit.Schedule.Len())
	}
	_, err := checkpoint.Solve(costs, least-1)
	var small *checkpoint.BudgetError
	require.ErrorAs(t, err, &small)
	require.Equal(t, least, small.Smallest.Estimate.Peak)
	require.ErrorContains(t, err, "no schedule takes less than")
}

// binomial is n over k.
func binomial(n, k int) int {
	if k < 0 {
		return 0
	}
	b := 1
	for i := 1; i <= k; i++ {
		b = b * (n - k + i) / i
	}
	return b
}

// Griewank's formula (1992): with c checkpoints, a chain of n equal steps is reversed with r n - (c+r over r-1) forward steps
// beside those of the reversal itself, where r is the smallest number with (c+r over c) >= n.
func griewank(n, c int) int {
	r := 0
	for binomial(c+r, c) < n {
		r++
	}
	return r*n - binomial(c+r, r-1)
}

func TestSolveIsGriewanksFormula(t *testing.T) {
	const x, a = 10, 1000 // one block whole takes more than all inputs do
	c := checkpoint.Cost{In: x, Out: x,
		All:    checkpoint.Menu{Keeps: a, Forward: checkpoint.Phase{Time: 1}, Backward: checkpoint.Phase{Peak: a}},
		Dear:   checkpoint.Menu{Keeps: a, Forward: checkpoint.Phase{Time: 1}, Backward: checkpoint.Phase{Peak: a, Time: 1}},
		Region: checkpoint.Menu{Forward: checkpoint.Phase{Time: 1}, Backward: checkpoint.Phase{Peak: a, Time: 1}},
	}
	for n := 1; n <= 36; n += 5 {
		costs := make([]checkpoint.Cost, n)
		for i := range costs {
			costs[i] = c
		}
		for k := 1; k <= min(n, 12); k++ { // checkpoints, the chain's input among them
			fit, err := checkpoint.Solve(costs, int64(a+min(k, n-1)*x)) // and the state at hand
			if k == 1 && n > 1 {
				require.Equal(t, n*(n-1)/2, griewank(n, 1))
			}
			require.NoError(t, err)
			require.EqualValues(t, n+griewank(n, k), fit.Estimate.Time, "%d blocks, %d checkpoints: %s", n, k, fit.Schedule)
		}
	}
}

// 100 blocks that differ, a fifth of the bytes.
func TestSolve100(t *testing.T) {
	if testing.Short() {
		t.Skip("half a second, and ten times that under the race detector")
	}
	costs := randomCosts(rand.New(rand.NewPCG(9, 9)), 100)
	plain := checkpoint.All(100).Estimate(costs)
	fit, err := checkpoint.Solve(costs, plain.Peak/5)
	require.NoError(t, err)
	require.LessOrEqual(t, fit.Estimate.Peak, plain.Peak/5)
	require.Less(t, fit.Estimate.Time, plain.Time*13/10)
	require.Equal(t, 100, fit.Schedule.Len())
}

// 0.5 s of CPU on the machine of docs/design.md, section 8.
func BenchmarkSolve100(b *testing.B) {
	costs := randomCosts(rand.New(rand.NewPCG(9, 9)), 100)
	budget := checkpoint.All(100).Estimate(costs).Peak / 5
	for b.Loop() {
		if _, err := checkpoint.Solve(costs, budget); err != nil {
			b.Fatal(err)
		}
	}
}

// Fit on a model: what it promises is what a dry run finds, and training stays the same to the bit.
func TestFit(t *testing.T) {
	r := newRig(t)
	defer r.close()
	ln := gptLine(r, 8)
	before, rand := r.dev.Stats().Live, r.sess.Rand()
	plain, err := checkpoint.Fit(r.sess, ln, 1<<40)
	require.NoError(t, err)
	require.Equal(t, before, r.dev.Stats().Live)
	require.Equal(t, rand, r.sess.Rand(), "measuring leaves nothing")
	require.Equal(t, plain.Plain.Peak, plain.Estimate.Peak)
	require.Equal(t, checkpoint.All(8), plain.Schedule)

	_, err = checkpoint.Fit(r.sess, ln, 1)
	var small *checkpoint.BudgetError
	require.ErrorAs(t, err, &small)
	least := small.Smallest.Estimate.Peak
	for budget := least; budget < plain.Plain.Peak; budget += (plain.Plain.Peak - least) / 7 {
		fit, err := checkpoint.Fit(r.sess, ln, budget)
		require.NoError(t, err)
		w := dryChain(r, ln, fit.Schedule)
		require.LessOrEqual(t, w.peak-4, budget)
		require.Equal(t, fit.Estimate.Activations, w.activations)
		require.Greater(t, fit.Estimate.Time, time.Duration(0))
	}
}
