package ops_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/autograd/gradcheck"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// job is a row made ready to run in a session: inputs on the device, and a gradient for each output.
type job struct {
	*rig
	row   *row
	lay   layout
	vals  []array
	in    []*tensor.Tensor
	seeds []*tensor.Tensor
	fixed map[int]bool // float inputs that require no gradient
	grads bool         // an output is of floating point: there are gradients
}

func (r *row) job(t testing.TB, cfg autograd.Config, in []arg, dt tensor.DType, lay layout) *job {
	cfg.Seed = seed
	j := &job{rig: newRig(t, cfg), row: r, lay: lay, fixed: map[int]bool{}}
	for i, a := range in {
		v := a.values(uint64(i))
		j.vals = append(j.vals, v)
		to := a.dt
		if !a.index() {
			to = dt
		}
		j.in = append(j.in, j.tensor(lay.store(v), to))
	}
	j.ok(func(s *autograd.Scope) { // the outputs' specs
		for k, y := range r.call(s.NoGrad(), j.views(s, j.inputs(s, false))) {
			j.grads = j.grads || y.DType().IsFloat() && !r.unrecorded
			g, to := floats(y.Shape()...).values(uint64(100+k)), dt
			if y.DType().IsFloat() {
				to = y.DType()
			}
			j.seeds = append(j.seeds, j.tensor(g, to))
		}
	})
	return j
}

func (j *job) close() {
	j.t.Helper()
	for _, t := range append(j.in, j.seeds...) {
		t.Release()
	}
	j.rig.close()
}

// inputs gives the leaves of a step.
func (j *job) inputs(s *autograd.Scope, grad bool) []value {
	leaves := make([]value, len(j.in))
	for i, t := range j.in {
		leaves[i] = s.Input(t)
		if grad && t.DType().IsFloat() && !j.fixed[i] {
			leaves[i].RequireGrad()
		}
	}
	return leaves
}

func (j *job) views(s *autograd.Scope, leaves []value) []value {
	vs := make([]value, len(leaves))
	for i, v := range leaves {
		vs[i] = j.lay.view(s, v)
	}
	return vs
}

// result of a step: outputs, and gradients of the inputs (empty where there are none).
type result struct{ out, grad []array }

// run is forward and backward in one step, with the same random words each time.
func (j *job) run() (res result) {
	j.t.Helper()
	j.sess.SetRand(tensor.Stream{Seed: seed})
	j.ok(func(s *autograd.Scope) { res = j.body(s) })
	return res
}

func (j *job) body(s *autograd.Scope) (res result) {
	leaves := j.inputs(s, true)
	ys := j.row.call(s, j.views(s, leaves))
	for _, y := range ys {
		res.out = append(res.out, read(y.Tensor()))
	}
	for k, y := range ys {
		if y.RequiresGrad() {
			y.Backward(s, autograd.WithGrad(j.seeds[k]), autograd.RetainGraph())
		}
	}
	for _, v := range leaves {
		g := array{}
		if v.RequiresGrad() && v.Grad() != nil {
			t := j.lay.viewTensor(v.Grad())
			g = read(&t)
		}
		res.grad = append(res.grad, g)
	}
	return res
}

// eachRow runs a subtest for each row.
func eachRow(t *testing.T, f func(t *testing.T, r *row)) {
	for i := range table {
		t.Run(table[i].name, func(t *testing.T) { f(t, &table[i]) })
	}
}

var floatTypes = []tensor.DType{tensor.Float32, tensor.Float64}

// Float64 against the formula, float32 against float64 on the same inputs, forward and gradients.
func TestValues(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		var res [2]result
		for i, dt := range floatTypes {
			j := r.job(t, autograd.Config{}, r.in, dt, plain)
			res[i] = j.run()
			if dt == tensor.Float64 {
				for k, want := range r.want(j.vals) {
					require.NoError(t, near(want, res[i].out[k], 1e-12, 1e-12), "output %d", k)
				}
			}
			j.close()
		}
		for k := range res[0].out {
			require.NoError(t, near(res[1].out[k], res[0].out[k], 1e-5, 1e-6), "output %d in float32", k)
		}
		for k := range res[0].grad {
			require.NoError(t, near(res[1].grad[k], res[0].grad[k], 1e-5, 2e-6), "gradient %d in float32", k)
		}
	})
}

// Gradients against central differences, for each way in which inputs may lie in memory.
func TestGradients(t *testing.T) {
	for _, lay := range []layout{plain, sliced, transposed} {
		t.Run([]string{"plain", "sliced", "transposed"}[lay], func(t *testing.T) {
			eachRow(t, func(t *testing.T, r *row) {
				j := r.job(t, autograd.Config{}, r.in, tensor.Float64, lay)
				defer j.close()
				if !j.grads {
					t.Skip("no gradients")
				}
				f := func(s *autograd.Scope, in []value) []value { return r.call(s, j.views(s, in)) }
				require.NoError(t, gradcheck.Check(j.sess, f, j.in, gradcheck.Config{}))
			})
		})
	}
}

// Strides change no bit.
func TestStridedInputs(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		var first result
		for _, lay := range []layout{plain, sliced, transposed} {
			j := r.job(t, autograd.Config{}, r.in, tensor.Float32, lay)
			res := j.run()
			j.close()
			if lay == plain {
				first = res
			}
			require.Equal(t, first, res, "layout %d", lay)
		}
	})
}

// Gradients are added to those that are there, whichever inputs have them: each input's own alone, twice, then all.
func TestGradientsAreAdded(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		all := r.job(t, autograd.Config{}, r.in, tensor.Float64, plain)
		want := all.run()
		all.close()
		for first := range r.in {
			if r.in[first].index() || !all.grads {
				continue
			}
			j := r.job(t, autograd.Config{}, r.in, tensor.Float64, plain)
			params, step := j.asParams()
			for _, alone := range []bool{true, true, false} {
				for i, p := range params {
					if p != nil {
						p.SetFrozen(alone && i != first)
					}
				}
				j.sess.SetRand(tensor.Stream{Seed: seed})
				j.ok(step)
			}
			for i, p := range params {
				if p == nil {
					continue
				}
				g := newArray(p.Spec().Shape...)
				for k, v := range want.grad[i].data {
					if g.data[k] = v; i == first {
						g.data[k] = 3 * v
					}
				}
				require.NoError(t, near(g, read(p.Grad()), 1e-12, 1e-12), "first %d, input %d", first, i)
			}
			j.close()
		}
	})
}

// What is kept is what the rule says for the inputs that require gradients, in words and bytes; the gradients that are
// computed do not depend on which others are.
func TestSaved(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		e := entryOf(t, r.entry)
		all := r.job(t, autograd.Config{}, r.in, tensor.Float32, plain)
		want := all.run()
		all.close()
		for mask := 1; mask < 1<<len(r.in); mask++ {
			j := r.job(t, autograd.Config{}, r.in, tensor.Float32, plain)
			full, any := true, false
			for i := range r.in {
				if r.in[i].index() {
					continue
				}
				j.fixed[i] = mask>>i&1 == 0
				full, any = full && !j.fixed[i], any || !j.fixed[i]
			}
			if any {
				j.checkSaved(e, full)
				got := j.run()
				require.Equal(t, want.out, got.out)
				for i := range r.in {
					if !j.fixed[i] {
						require.Equal(t, want.grad[i], got.grad[i], "gradient %d, required: %b", i, mask)
					}
				}
			}
			j.close()
		}
	})
}

func (j *job) checkSaved(e *ops.Entry, full bool) {
	j.t.Helper()
	j.ok(func(s *autograd.Scope) {
		y := j.row.call(s, j.inputs(s, true))[0]
		var got []string
		var bytes int64
		for _, sv := range autograd.Saved(y) {
			require.Equal(j.t, e.Op.Rule().Name, sv.Op)
			got = append(got, nameOf(e, sv.Why))
			bytes += sv.Bytes
		}
		require.ElementsMatch(j.t, j.reads(e), got)
		if full {
			slices.Sort(got)
			want := strings.Split(j.row.keeps, ", ")
			slices.Sort(want)
			require.Equal(j.t, strings.Join(want, ", "), strings.Join(got, ", "))
			require.Equal(j.t, j.row.bytes, bytes)
		}
	})
}

// reads is what the rule names for the inputs that require gradients.
func (j *job) reads(e *ops.Entry) (names []string) {
	for i, refs := range e.Op.Rule().Reads {
		if i >= len(j.in) || j.fixed[i] || !j.in[i].DType().IsFloat() {
			continue
		}
		for _, ref := range refs {
			name := ""
			if ref >= 0 {
				name = e.In[ref].Name
			} else {
				name = e.Out[^ref].Name
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// nameOf reads "input 0, for the gradient of input 1".
func nameOf(e *ops.Entry, why string) string {
	var what string
	var i int
	if _, err := fmt.Sscanf(why, "%s %d,", &what, &i); err != nil {
		panic(why)
	}
	if what == "input" {
		return e.In[i].Name
	}
	return e.Out[i].Name
}

func entryOf(t testing.TB, name string) *ops.Entry {
	for _, e := range ops.Catalog() {
		if e.Func == name {
			return &e
		}
	}
	require.FailNow(t, "no such entry", name)
	return nil
}

// Under NoGrad values are the same, nothing is saved, and nothing is allocated that outlives the op but its outputs.
func TestNoGrad(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		e := entryOf(t, r.entry)
		_, view := e.Op.(autograd.Viewer)
		j := r.job(t, autograd.Config{}, r.in, tensor.Float32, plain)
		defer j.close()
		want := j.run()
		j.sess.SetRand(tensor.Stream{Seed: seed})
		j.ok(func(s *autograd.Scope) {
			in := j.inputs(s, true)
			live := j.dev.Stats().Live
			ys := r.call(s.NoGrad(), in)
			var bytes int64
			for k, y := range ys {
				require.Equal(t, want.out[k], read(y.Tensor()))
				require.False(t, y.RequiresGrad())
				require.Empty(t, autograd.Saved(y))
				if !view {
					bytes += y.Spec().Bytes()
				}
			}
			require.Equal(t, live+bytes, j.dev.Stats().Live)
		})
	})
}

// After a step only the inputs are left, whether they are leaves or parameters (which keep their gradients).
func TestNothingIsLeft(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		j := r.job(t, autograd.Config{}, r.in, tensor.Float32, plain)
		defer j.close()
		live := j.dev.Stats().Live
		for range 3 {
			j.run()
			require.Equal(t, live, j.dev.Stats().Live)
		}
		params, step := j.asParams()
		var owned int64
		for _, p := range params {
			if p != nil {
				owned += p.Spec().Bytes()
			}
		}
		require.NoError(t, j.step(step))
		grads := owned
		if !j.grads {
			grads = 0
		}
		require.Equal(t, live+owned+grads, j.dev.Stats().Live)
		require.Equal(t, grads, j.dev.Stats().LiveByKind[memory.Grad])
	})
}

// asParams makes parameters of the float inputs, nil for others, and gives them and a step over them.
func (j *job) asParams() (params []*autograd.Param, step func(*autograd.Scope)) {
	params = make([]*autograd.Param, len(j.in))
	for i, t := range j.in {
		if t.DType().IsFloat() {
			params[i] = j.param(fmt.Sprint("p", i), read(t), t.DType())
		}
	}
	return params, func(s *autograd.Scope) {
		in := make([]value, len(j.in))
		for i, p := range params {
			if p != nil {
				in[i] = p.Value()
			} else {
				in[i] = s.Input(j.in[i])
			}
		}
		ys := j.row.call(s, j.views(s, in))
		for k, y := range ys {
			if y.RequiresGrad() {
				y.Backward(s, autograd.WithGrad(j.seeds[k]), autograd.RetainGraph())
			}
		}
	}
}

// Law M3: the dry run is the real run, event for event, at the first step and at the second, which finds gradients.
func TestDryRunIsTheRealRun(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		for _, in := range [][]arg{r.in, r.large} {
			if in == nil {
				continue
			}
			for _, lay := range []layout{plain, sliced} {
				j := r.job(t, autograd.Config{}, in, tensor.Float32, lay)
				_, step := j.asParams()
				plantest.Compare(t, j.sess, func(s *autograd.Scope) error { step(s); return nil })
				j.close()
			}
		}
	})
}

// Law M2: whichever allocation fails, live bytes are what they were, and the next step gives the same gradients.
func TestEveryAllocationMayFail(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		j := r.job(t, autograd.Config{}, r.in, tensor.Float32, sliced)
		defer j.close()
		before := j.dev.Stats().Allocs
		want := j.run()
		n := j.dev.Stats().Allocs - before
		live := j.dev.Stats().Live
		for k := range n {
			j.sess.SetRand(tensor.Stream{Seed: seed})
			j.dev.FailAt(int64(k) + 1)
			err := j.step(func(s *autograd.Scope) { j.body(s) })
			var oom *memory.OOMError
			require.ErrorAs(t, err, &oom, "allocation %d", k)
			require.Equal(t, live, j.dev.Stats().Live, "allocation %d", k)
			require.EqualValues(t, 0, j.sess.Rand().Offset)
		}
		require.Equal(t, want, j.run())
	})
}

// Laws N2 and M7: neither bits nor byte figures depend on workers and processors; figures may depend on Lanes, bits not.
func TestWorkersChangeNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	eachRow(t, func(t *testing.T, r *row) {
		if r.large == nil {
			t.Skip("no large inputs")
		}
		var first [2]result
		figures := map[string]memory.Stats{}
		type setting struct {
			dt                    tensor.DType
			lanes, workers, procs int
		}
		settings := []setting{
			{tensor.Float32, 8, 1, 1}, {tensor.Float32, 8, 7, 7},
			{tensor.Float32, 8, 2, 2}, {tensor.Float32, 8, 2, 7}, {tensor.Float32, 8, 7, 1},
			{tensor.Float32, 1, 1, 1}, {tensor.Float32, 1, 7, 2}, {tensor.Float32, 3, 2, 2},
			{tensor.Float64, 8, 1, 1}, {tensor.Float64, 8, 7, 2}, {tensor.Float64, 1, 2, 7},
		}
		if testing.Short() { // what the race detector has to see
			settings = settings[:2]
		}
		for _, c := range settings {
			runtime.GOMAXPROCS(c.procs)
			j := r.job(t, autograd.Config{Workers: c.workers, Lanes: c.lanes}, r.large, c.dt, plain)
			j.dev.ResetPeak()
			res := j.run()
			st := j.dev.Stats()
			j.close()
			if first[c.dt].out == nil {
				first[c.dt] = res
			}
			requireSameBits(t, first[c.dt], res)
			key := fmt.Sprint(c.dt, c.lanes)
			if old, ok := figures[key]; ok {
				require.Equal(t, old, st)
			}
			figures[key] = st
		}
	})
}

// requireSameBits is require.Equal for results that are too large to print.
func requireSameBits(t *testing.T, a, b result) {
	t.Helper()
	for i, pair := range [][2][]array{{a.out, b.out}, {a.grad, b.grad}} {
		require.Equal(t, len(pair[0]), len(pair[1]))
		for k := range pair[0] {
			x, y := pair[0][k].data, pair[1][k].data
			same := slices.EqualFunc(x, y, func(v, w float64) bool { return math.Float64bits(v) == math.Float64bits(w) })
			require.True(t, same, "%s %d", []string{"output", "gradient"}[i], k)
		}
	}
}

// Large inputs, of several chunks: values against the formula, each gradient along one random direction against the
// difference of the outputs, float32 against float64.
func TestLargeValues(t *testing.T) {
	eachRow(t, func(t *testing.T, r *row) {
		if r.large == nil {
			t.Skip("no large inputs")
		}
		single := r.job(t, autograd.Config{Workers: 2}, r.large, tensor.Float32, plain)
		defer single.close()
		double := r.job(t, autograd.Config{Workers: 2}, r.large, tensor.Float64, plain)
		defer double.close()
		got, res := single.run(), double.run()
		for k, want := range r.want(double.vals) {
			require.NoError(t, near(want, res.out[k], 1e-11, 1e-11), "output %d", k)
			require.NoError(t, near(want, got.out[k], 1e-4, 1e-4), "output %d in float32", k)
		}
		for k, want := range res.grad {
			require.NoError(t, near(want, got.grad[k], 1e-4, 1e-3), "gradient %d in float32", k)
		}
		for i, x := range double.in {
			if x.DType().IsFloat() && double.grads {
				double.checkDirection(i, res.grad[i].data)
			}
		}
	})
}

// checkDirection compares the derivative along a random direction of input i with a central difference.
func (j *job) checkDirection(i int, grad []float64) {
	j.t.Helper()
	const h = 1e-6
	x := tensor.Data[float64](j.in[i])
	was, dir := slices.Clone(x), floats(len(x)).values(uint64(200+i)).data
	move := func(by float64) float64 {
		for k := range x {
			x[k] = was[k] + by*dir[k]
		}
		return j.weighed()
	}
	diff := (move(h) - move(-h)) / (2 * h)
	copy(x, was)
	var sum, size float64
	for k, g := range grad {
		sum += g * dir[k]
		size += math.Abs(g * dir[k])
	}
	require.InDelta(j.t, diff, sum, 1e-6*size, "gradient %d along a direction", i)
}

// weighed is the sum of the outputs times their gradients' seeds.
func (j *job) weighed() (sum float64) {
	j.sess.SetRand(tensor.Stream{Seed: seed})
	j.ok(func(s *autograd.Scope) {
		for k, y := range j.row.call(s.NoGrad(), j.inputs(s, false)) {
			for i, v := range read(y.Tensor()).data {
				sum += v * tensor.Data[float64](j.seeds[k])[i]
			}
		}
	})
	return sum
}
