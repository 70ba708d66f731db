package offload_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// moveAll moves the parameters of a rig to a store.
func (r *rig) moveAll(h autograd.Home) {
	r.t.Helper()
	for _, p := range r.params {
		require.NoError(r.t, p.SetHome(h))
	}
}

// clipped is rig.step with the norm of all gradients held down.
func (r *rig) clipped(norms *[]float64) func(s *autograd.Scope) error {
	return func(s *autograd.Scope) error {
		c := s
		if r.store != nil {
			c = s.WithSaver(r.store)
		}
		loss := r.model.Loss(c, s.Input(r.x), s.Input(r.y))
		r.loss = loss.Item()
		loss.Backward(c)
		norm, err := optim.ClipGradNorm(s, r.params, 0.3)
		if err != nil {
			return err
		}
		if !s.Session().Dry() {
			*norms = append(*norms, norm)
		}
		if err := r.opt.Step(s); err != nil {
			return err
		}
		r.opt.ZeroGrad(s)
		return nil
	}
}

// TestParametersAway: activations, moments, parameters and gradients, in memory, on disk, mixed, with read-ahead and
// without, under delays: the same training to the bit, dry run = real run, nothing of it on the device between steps.
func TestParametersAway(t *testing.T) {
	plain := newRig(t, false)
	defer plain.close()
	plain.adamw()
	var want []float64
	for range 2 * rounds {
		require.NoError(t, plain.sess.Step(context.Background(), plain.clipped(&want)))
	}
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			r := newRig(t, false)
			defer r.close()
			r.store = r.open(v.cfg)
			r.moveAll(r.store)
			var err error
			r.opt, err = optim.NewAdamW(r.params, optim.AdamWConfig{LR: 1e-2, WeightDecay: 0.1, Store: r.store})
			require.NoError(t, err)
			var inputs = r.x.Bytes() + r.y.Bytes()
			var norms []float64
			for range rounds {
				plantest.Compare(t, r.sess, r.clipped(&norms))
				require.Equal(t, inputs+r.store.Stats().Staging, r.dev.Stats().Live, "batch and ring")
			}
			require.Equal(t, want, norms)
			r.same(plain, v.name)
			for _, p := range r.params {
				require.NoError(t, p.SetHome(nil))
			}
			r.same(plain, "moved back")
		})
	}
}

// TestNormsOnTheWay: a pass that takes the norms of gradients before they go to disk leaves nothing to fetch for a norm.
func TestNormsOnTheWay(t *testing.T) {
	var norms [2]float64
	for i, opts := range [][]autograd.BackwardOption{nil, {autograd.WithGradNorms()}} {
		r := newRig(t, false)
		r.store = r.open(offload.Config{Tier: offload.Disk, Blocks: 2})
		r.moveAll(r.store)
		r.adamw()
		var read int64
		plantest.Compare(t, r.sess, func(s *autograd.Scope) error {
			r.model.Loss(s, s.Input(r.x), s.Input(r.y)).Backward(s, opts...)
			before := r.store.Stats()
			all, err := optim.MeasureGrads(s, r.params)
			if !s.Dry() {
				after := r.store.Stats()
				norms[i], read = all.Norm, after.Read-before.Read+int64(after.Hits-before.Hits)
			}
			r.opt.ZeroGrad(s)
			return err
		})
		require.Equal(t, i == 0, read > 0)
		r.close()
	}
	require.Positive(t, norms[0])
	require.Equal(t, norms[0], norms[1])
}

// TestAccumulation: gradients add up in the store, over steps of their own.
func TestAccumulation(t *testing.T) {
	r, plain := newRig(t, false), newRig(t, false)
	defer r.close()
	defer plain.close()
	r.store = r.open(offload.Config{Tier: offload.Disk, Files: &faulty{delay: 50 * time.Microsecond}})
	r.moveAll(r.store)
	r.adamw()
	plain.adamw()
	add := func(r *rig) func(s *autograd.Scope) error {
		return func(s *autograd.Scope) error {
			r.model.Loss(s, s.Input(r.x), s.Input(r.y)).Backward(s, autograd.WithScale(0.5))
			if err := optim.ScaleGrad(s, r.params, 0.75); err != nil {
				return err
			}
			return optim.ClipGradValue(s, r.params, 0.01)
		}
	}
	for range 2 {
		require.NoError(t, r.sess.Step(context.Background(), add(r)))
		require.NoError(t, plain.sess.Step(context.Background(), add(plain)))
		r.ok(1)
		plain.ok(1)
	}
	r.same(plain, "accumulated")
	require.Zero(t, r.store.Stats().Host)
}

// TestLargerThanTheDevice: a model whose parameters alone do not fit is built straight into a store and trains.
func TestLargerThanTheDevice(t *testing.T) {
	cfg := nn.GPTConfig{Vocab: V, Context: T, Dim: 64, Layers: 8, Heads: 2}
	virtual, err := memory.NewDevice(memory.Config{Virtual: true})
	require.NoError(t, err)
	vs, err := autograd.New(autograd.Config{Device: virtual})
	require.NoError(t, err)
	_, err = nn.NewGPT(vs, cfg)
	require.NoError(t, err)
	bytes := virtual.Stats().Live // on a virtual device first: what it will take
	require.NoError(t, vs.Close())

	limit := bytes / 3
	dev, err := memory.NewDevice(memory.Config{Limit: limit})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 3, Workers: 2})
	require.NoError(t, err)
	_, err = nn.NewGPT(sess, cfg)
	var oom *memory.OOMError
	require.ErrorAs(t, err, &oom)
	require.NoError(t, sess.Close())

	sess, err = autograd.New(autograd.Config{Device: dev, Seed: 3, Workers: 2})
	require.NoError(t, err)
	st, err := offload.Open(offload.Config{Device: dev, Tier: offload.Disk, Dir: t.TempDir(), BlockBytes: 8192, Blocks: 4, MinBytes: 1})
	require.NoError(t, err)
	dev.ResetPeak()
	r := &rig{t: t, dev: dev, sess: sess, store: st}
	require.NoError(t, sess.BuildIn(st, func() (err error) {
		r.model, err = nn.NewGPT(sess, cfg)
		return err
	}))
	require.Less(t, dev.Stats().Peak-st.Stats().Staging, int64(4*64*64*4+1), "the largest parameter")
	require.GreaterOrEqual(t, st.Stats().Disk, bytes)
	r.params = nn.Params(r.model)
	r.opt, err = optim.NewAdamW(r.params, optim.AdamWConfig{LR: 1e-2, Store: st})
	require.NoError(t, err)
	at := memory.Site{Op: "batch"}
	r.x, err = tensor.Zeros(dev, memory.Input, at, tensor.Of(tensor.Int64, B, T))
	require.NoError(t, err)
	r.y, err = tensor.Zeros(dev, memory.Input, at, tensor.Of(tensor.Int64, B, T))
	require.NoError(t, err)
	first := 0.0
	for range 3 {
		plantest.Compare(t, sess, r.step)
		if first == 0 {
			first = r.loss
		}
	}
	require.Less(t, r.loss, first)
	require.LessOrEqual(t, dev.Stats().ArenaPeak, limit)

	// the same model, built on a device that it fits on, trains to the same bits
	big, err := memory.NewDevice(memory.Config{Reserve: 1 << 28})
	require.NoError(t, err)
	q := &rig{t: t, dev: big}
	q.sess, err = autograd.New(autograd.Config{Device: big, Seed: 3})
	require.NoError(t, err)
	q.model, err = nn.NewGPT(q.sess, cfg)
	require.NoError(t, err)
	q.params = nn.Params(q.model)
	q.opt, err = optim.NewAdamW(q.params, optim.AdamWConfig{LR: 1e-2})
	require.NoError(t, err)
	q.x, err = tensor.Zeros(big, memory.Input, at, tensor.Of(tensor.Int64, B, T))
	require.NoError(t, err)
	q.y, err = tensor.Zeros(big, memory.Input, at, tensor.Of(tensor.Int64, B, T))
	require.NoError(t, err)
	q.ok(6)
	r.same(q, "built elsewhere")
	q.close()
	r.close()
}

// TestHomeFaults: a fault before the update leaves all as it was; a fault within it names what has been updated, and that
// alone has moved. The ones that failed are whole: a step later, all is as for a twin that made the same updates.
func TestHomeFaults(t *testing.T) {
	f := &faulty{}
	r := newRig(t, false)
	defer r.close()
	r.store = r.open(offload.Config{Tier: offload.Disk, Files: f, BlockBytes: 8192, MinBytes: 1})
	r.moveAll(r.store)
	var err error
	r.opt, err = optim.NewAdamW(r.params, optim.AdamWConfig{LR: 1e-2, Store: r.store})
	require.NoError(t, err)
	r.ok(1)
	each := func() map[string][]float32 {
		m := map[string][]float32{}
		for _, p := range r.params {
			w, err := p.Fetch()
			require.NoError(t, err)
			m[p.Name()] = slices.Clone(tensor.Data[float32](&w))
			w.Release()
		}
		return m
	}
	live, partly, stride := r.dev.Stats().Live, 0, 7
	if testing.Short() {
		stride = 15
	}
	for _, c := range []struct {
		kind  fault
		write bool
		text  string
	}{
		{fails, false, "injected"}, {short, false, "unexpected EOF"}, {flips, false, "checksum"}, {fails, true, "injected"}, {short, true, "short write"},
	} {
		failed := 0
		for n := 2; n < 900; n += stride {
			before := each()
			f.arm(c.kind, c.write, n, true)
			err := r.run()
			hits := f.disarm()
			if err == nil {
				if hits == 0 {
					break
				}
				for _, p := range r.params { // what was read ahead wrongly is told to whoever asks for it
					if w, err := p.Fetch(); err == nil {
						w.Release()
					}
				}
				continue
			}
			failed++
			require.ErrorContains(t, err, c.text)
			require.ErrorContains(t, err, r.store.Folder())
			require.Equal(t, live, r.dev.Stats().Live)
			after := each()
			for name, old := range before {
				if !slices.Equal(old, after[name]) {
					require.ErrorContains(t, err, "updated already: ")
					require.Regexp(t, `[ ,]`+name+`(,|$)`, err.Error(), "moved and is not named")
					partly++
				}
			}
			for _, p := range r.params {
				p.ZeroGrad()
			}
			require.NoError(t, r.run(), "the disk is well again")
		}
		require.Greater(t, failed, 3, c.text)
	}
	require.Positive(t, partly)
}

// TestHomeAllocations: every allocation of a step fails once, with everything away.
func TestHomeAllocations(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	r.store = r.open(offload.Config{Tier: offload.Disk})
	r.moveAll(r.store)
	var err error
	r.opt, err = optim.NewAdamW(r.params, optim.AdamWConfig{LR: 1e-2, Store: r.store})
	require.NoError(t, err)
	r.ok(1)
	plan, err := r.sess.Plan(r.step, autograd.PlanConfig{Steps: 1})
	require.NoError(t, err)
	live, disk := r.dev.Stats().Live, r.store.Stats().Disk
	for k := 1; k <= int(plan.Steps[0].Allocs); k += 29 {
		r.dev.FailAt(int64(k))
		err := r.run()
		r.dev.FailAt(0)
		var oom *memory.OOMError
		require.ErrorAs(t, err, &oom)
		require.Equal(t, live, r.dev.Stats().Live)
		for _, p := range r.params {
			p.ZeroGrad()
		}
		require.Equal(t, disk, r.store.Stats().Disk)
	}
	r.ok(1)
}

// TestHomeStateDict: a model's values are given, copied and loaded one at a time.
func TestHomeStateDict(t *testing.T) {
	r, plain := newRig(t, false), newRig(t, false)
	defer r.close()
	defer plain.close()
	plain.adamw()
	plain.ok(2)
	r.store = r.open(offload.Config{Tier: offload.Disk})
	r.moveAll(r.store)
	require.NoError(t, nn.LoadStateDict(r.model, nn.StateDict(plain.model)))
	require.True(t, slices.Equal(plain.values(), r.values()))
	sd := nn.StateDict(r.model)
	require.Equal(t, nn.StateDict(plain.model).Bytes(), sd.Bytes())
	for i, e := range sd {
		require.Nil(t, e.Tensor)
		w, err := e.Fetch()
		require.NoError(t, err)
		require.True(t, tensor.Equal(nn.StateDict(plain.model)[i].Tensor, &w), e.Name)
		w.Release()
	}
	r.adamw()
	for range 2 {
		r.ok(1)
		c, err := nn.StateDict(r.model).Clone()
		require.NoError(t, err)
		require.NoError(t, nn.LoadStateDict(plain.model, c))
		c.Release()
		require.True(t, slices.Equal(plain.values(), r.values()))
		r.ok(1)
		require.NoError(t, nn.LoadStateDict(plain.model, nn.StateDict(r.model)), "one at a time, without a copy")
		require.True(t, slices.Equal(plain.values(), r.values()))
	}
	require.ErrorContains(t, nn.LoadStateDict(plain.model, append(nn.StateDict(r.model), nn.Entry{Name: "more"})), "unexpected: more (no tensor)")
	bad := nn.StateDict(r.model)
	bad[0].Name, bad[1].Name = bad[1].Name, bad[0].Name
	require.ErrorContains(t, nn.LoadStateDict(plain.model, bad), "got float32[")
}

// TestHistory: from the second step on parameters are read ahead, forward, backward and in the update.
func TestHistory(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	r.adamw()
	st := r.open(offload.Config{Tier: offload.Disk, Blocks: 12})
	defer func() { require.NoError(t, st.Close()) }()
	r.moveAll(st)
	r.ok(1)
	first := st.Stats()
	require.Greater(t, first.Misses, first.Hits/2, "nothing is known yet")
	r.ok(1)
	st.ResetStats()
	r.ok(1)
	s := st.Stats()
	require.Less(t, s.Misses*8, s.Hits, "%d blocks of %d were not read ahead", s.Misses, s.Hits+s.Misses)
}

func TestHomeMisuse(t *testing.T) {
	r := newRig(t, false)
	defer r.close()
	st := r.open(offload.Config{Tier: offload.Disk})
	_, err := st.Fetch(r.dev, "nobody", tensor.Of(tensor.Float32, 1))
	require.EqualError(t, err, `offload: no parameter "nobody" lives in the store`)
	_, err = st.Grad(r.dev, "nobody", tensor.Of(tensor.Float32, 1))
	require.EqualError(t, err, `offload: parameter "nobody" has no gradient in the store`)
	p := r.params[0]
	require.NoError(t, p.SetHome(st))
	_, err = st.Fetch(r.dev, p.Name(), tensor.Of(tensor.Float32, 1))
	require.ErrorContains(t, err, "want 4, of float32[1]")
	require.ErrorContains(t, st.PutGrad("nobody", tensor.Tensor{}), "does not live in the store")
	other, err := memory.NewDevice(memory.Config{Name: "other", Reserve: 1 << 20})
	require.NoError(t, err)
	_, err = st.Fetch(other, p.Name(), p.Spec())
	require.ErrorContains(t, err, `on device "other": want "cpu"`)
	require.NoError(t, other.Close())
	require.NoError(t, p.SetHome(nil))
	require.Zero(t, st.Stats().Disk, "who moves out leaves nothing")
	require.NoError(t, st.Close())
	require.ErrorContains(t, p.SetHome(st), "the store is closed")

	k := r.open(offload.Config{Tier: offload.Disk, Place: func(offload.Item) offload.Tier { return offload.Keep }})
	s, err := k.Open("x", tensor.Of(tensor.Float32, 4))
	require.NoError(t, err)
	require.Nil(t, s)
	require.ErrorContains(t, p.SetHome(k), "on keep: want Host or Disk")
	require.NoError(t, k.Close())
}
