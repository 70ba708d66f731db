package offload_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// loadable is an optimizer with state.
type loadable interface {
	optim.Optimizer
	StateDict() (*optim.StateDict, error)
	LoadStateDict(*optim.StateDict) error
	ReleaseGradients() error
	Close() error
}

// maker makes an optimizer with all the state that it can have. A nil store keeps it on the device.
type maker struct {
	name string
	make func(ps []*autograd.Param, store optim.StateStore) (loadable, error)
}

var optimizers = []maker{
	{"SGD", func(ps []*autograd.Param, st optim.StateStore) (loadable, error) {
		return optim.NewSGD(ps, optim.SGDConfig{LR: 1e-2, Momentum: 0.9, WeightDecay: 0.01, Store: st})
	}},
	{"AdamW", func(ps []*autograd.Param, st optim.StateStore) (loadable, error) {
		return optim.NewAdamW(ps, optim.AdamWConfig{LR: 1e-2, WeightDecay: 0.1, Store: st})
	}},
	{"Adam", func(ps []*autograd.Param, st optim.StateStore) (loadable, error) {
		return optim.NewAdam(ps, optim.AdamConfig{LR: 1e-2, WeightDecay: 0.1, AMSGrad: true, Store: st})
	}},
	{"Lion", func(ps []*autograd.Param, st optim.StateStore) (loadable, error) {
		return optim.NewLion(ps, optim.LionConfig{LR: 1e-3, WeightDecay: 0.1, Store: st})
	}},
	{"RMSprop", func(ps []*autograd.Param, st optim.StateStore) (loadable, error) {
		return optim.NewRMSprop(ps, optim.RMSpropConfig{LR: 1e-3, Momentum: 0.9, Centered: true, Store: st})
	}},
	{"Adagrad", func(ps []*autograd.Param, st optim.StateStore) (loadable, error) {
		return optim.NewAdagrad(ps, optim.AdagradConfig{LR: 1e-2, Store: st})
	}},
	{"Adafactor", func(ps []*autograd.Param, st optim.StateStore) (loadable, error) {
		return optim.NewAdafactor(ps, optim.AdafactorConfig{LR: 1e-2, Store: st})
	}},
}

// chosen are all optimizers, or two that are most different.
func chosen() []maker {
	if testing.Short() {
		return []maker{optimizers[1], optimizers[6]}
	}
	return optimizers
}

// TestOptimizers: any optimizer with any store is the same to the bit, dry run = real run, and no moment is on the device.
func TestOptimizers(t *testing.T) {
	some := func(it offload.Item) offload.Tier { // a moment of two of a parameter stays, of others one is on each tier
		tiers := []offload.Tier{offload.Keep, offload.Disk, offload.Host}
		if len(it.Spec.Shape) < 2 {
			return offload.Disk
		}
		for _, suffix := range []string{".exp_avg", ".exp_avg (next)"} {
			if len(it.Name) > len(suffix) && it.Name[len(it.Name)-len(suffix):] == suffix {
				return tiers[0]
			}
		}
		return tiers[1+it.Spec.Dim(0)%2]
	}
	for _, o := range chosen() {
		t.Run(o.name, func(t *testing.T) {
			plain := newRig(t, false)
			defer plain.close()
			var err error
			plain.opt, err = o.make(plain.params, nil)
			require.NoError(t, err)
			plain.ok(4)
			for _, cfg := range []offload.Config{
				{Tier: offload.Host},
				{Tier: offload.Disk},
				{Tier: offload.Disk, Ahead: -1, Blocks: 3, Files: &faulty{delay: 100 * time.Microsecond}},
				{Tier: offload.Disk, Place: some},
			} {
				r := newRig(t, false)
				st := r.open(cfg)
				live := r.dev.Stats().LiveByKind
				r.opt, err = o.make(r.params, st)
				require.NoError(t, err)
				if cfg.Place == nil {
					require.Equal(t, live, r.dev.Stats().LiveByKind, "state on the device")
				}
				for range 2 {
					plantest.Compare(t, r.sess, r.step)
				}
				r.same(plain, fmt.Sprintf("%+v", cfg))
				require.NoError(t, r.opt.(loadable).Close())
				require.Zero(t, st.Stats().Host+st.Stats().Disk, "Close gives the room back")
				require.NoError(t, st.Close())
				r.close()
			}
		})
	}
}

// big is a training of two parameters of several tiles and a small one, by gradients that are made up.
type big struct {
	t      *testing.T
	dev    *memory.Device
	sess   *autograd.Session
	params []*autograd.Param
	x      *tensor.Tensor
	opt    loadable
	store  *offload.Store
}

func newBig(t *testing.T, cfg offload.Config, which int, home bool) *big {
	t.Helper()
	b := &big{t: t}
	var err error
	b.dev, err = memory.NewDevice(memory.Config{Reserve: 1 << 28})
	require.NoError(t, err)
	b.sess, err = autograd.New(autograd.Config{Device: b.dev, Seed: 5, Workers: 2})
	require.NoError(t, err)
	rows := []int{600, 10, 437}
	if testing.Short() {
		rows = []int{300, 10, 270}
	}
	for i, n := range rows {
		p, err := b.sess.NewParam(fmt.Sprint("w", i), tensor.Of(tensor.Float32, n, 1000), func(t *tensor.Tensor, r *tensor.Stream) error {
			return tensor.FillNormal(t, r, 0, 1)
		})
		require.NoError(t, err)
		b.params = append(b.params, p)
	}
	b.x, err = tensor.Zeros(b.dev, memory.Input, memory.Site{Op: "x"}, tensor.Of(tensor.Float32, 1, 1000))
	require.NoError(t, err)
	for i, d := 0, tensor.Data[float32](b.x); i < len(d); i++ {
		d[i] = float32(i%17) - 8
	}
	var st optim.StateStore
	if cfg.Tier != offload.Keep {
		cfg.Device, cfg.Dir = b.dev, t.TempDir()
		if cfg.Files == nil {
			cfg.Files = &faulty{}
		}
		b.store, err = offload.Open(cfg)
		require.NoError(t, err)
		st = b.store
	}
	if home {
		for _, p := range b.params {
			require.NoError(t, p.SetHome(b.store))
		}
	}
	b.opt, err = optimizers[which].make(b.params, st)
	require.NoError(t, err)
	return b
}

func (b *big) step(s *autograd.Scope) error {
	x := s.Input(b.x)
	for _, p := range b.params {
		y := ops.MatMul(s, p.Value(), ops.Transpose(s, x, 0, 1))
		ops.Sum(s, ops.Square(s, y)).Backward(s)
	}
	if err := b.opt.Step(s); err != nil {
		return err
	}
	b.opt.ZeroGrad(s)
	return nil
}

func (b *big) run() error { return b.sess.Step(context.Background(), b.step) }

func (b *big) values() (sum []float32) {
	b.t.Helper()
	for _, p := range b.params {
		w, err := p.Fetch()
		require.NoError(b.t, err)
		sum = append(sum, tensor.Data[float32](&w)...)
		w.Release()
	}
	return sum
}

func (b *big) close() {
	b.t.Helper()
	if b.store != nil {
		require.NoError(b.t, b.store.Close())
	}
	b.x.Release()
	require.NoError(b.t, b.sess.Close())
	require.NoError(b.t, b.dev.Close())
}

// TestTiles: parameters of several tiles, which take several blocks each.
func TestTiles(t *testing.T) {
	which := []int{0, 1, 6}
	if testing.Short() {
		which = []int{1}
	}
	for _, which := range which {
		plain := newBig(t, offload.Config{}, which, false)
		for _, cfg := range []offload.Config{
			{Tier: offload.Disk, BlockBytes: 512 << 10, Blocks: 12},
			{Tier: offload.Disk, BlockBytes: 384 << 10, Blocks: 4}, // tiles end within blocks
			{Tier: offload.Host},
		} {
			b := newBig(t, cfg, which, false)
			for range 3 {
				plan := plantest.Compare(t, b.sess, b.step)
				require.LessOrEqual(t, plan.Steps[0].ByKind[memory.OptState], int64(2*40000), "the small parameter keeps its own")
				require.NoError(t, plain.run())
				require.NoError(t, plain.run())
				require.True(t, slices.Equal(plain.values(), b.values()), "other parameters")
			}
			if which == 1 && cfg.BlockBytes == 512<<10 {
				st := b.store.Stats()
				require.Less(t, st.Misses*4, st.Hits, "%d blocks of %d were not read ahead", st.Misses, st.Hits+st.Misses)
			}
			b.close()
			plain.close()
			plain = newBig(t, offload.Config{}, which, false)
		}
		plain.close()
	}
}

// TestStateFaults: every n-th transfer goes wrong. The step says so and names the file; parameters, moments and live bytes
// are what they were, so that the next step equals that of a twin which never saw a fault.
func TestStateFaults(t *testing.T) {
	which, stride := []int{1, 6}, 4
	if testing.Short() {
		which, stride = []int{1}, 9
	}
	for _, which := range which {
		f := &faulty{}
		b := newBig(t, offload.Config{Tier: offload.Disk, BlockBytes: 512 << 10, MinBytes: 1, Blocks: 5, Files: f}, which, false)
		twin := newBig(t, offload.Config{}, which, false)
		require.NoError(t, b.run())
		require.NoError(t, twin.run())
		live := b.dev.Stats().Live
		for _, c := range []struct {
			kind  fault
			write bool
			text  string
		}{
			{fails, false, "injected"}, {short, false, "unexpected EOF"}, {flips, false, "checksum"},
			{fails, true, "injected"}, {short, true, "short write"},
		} {
			for n := 1; n < 60; n += stride {
				before := b.values()
				f.arm(c.kind, c.write, n, true)
				err := b.run()
				if f.disarm() == 0 {
					require.NoError(t, err)
					require.NoError(t, twin.run())
					break
				}
				if err == nil { // read ahead and given up, or a log that nobody needed
					require.NoError(t, twin.run())
					continue
				}
				require.ErrorContains(t, err, c.text)
				require.ErrorContains(t, err, b.store.Folder())
				require.Equal(t, live, b.dev.Stats().Live)
				require.True(t, slices.Equal(before, b.values()), "%s %d: moved", c.text, n)
				for _, p := range b.params {
					p.ZeroGrad()
				}
			}
			require.NoError(t, b.run())
			require.NoError(t, twin.run())
			require.True(t, slices.Equal(twin.values(), b.values()), c.text)
		}
		// the disk is gone: nothing can be read, and the first read comes before the first change
		before := b.values()
		f.arm(fails, false, 1, false)
		require.ErrorContains(t, b.run(), "injected")
		f.disarm()
		require.True(t, slices.Equal(before, b.values()), "moved")
		b.close()
		twin.close()
	}
}

// TestStateAllocations: every allocation of a step with stored state fails once.
func TestStateAllocations(t *testing.T) {
	for _, which := range []int{1, 6} {
		r, twin := newRig(t, false), newRig(t, false)
		st := r.open(offload.Config{Tier: offload.Disk})
		var err error
		r.opt, err = optimizers[which].make(r.params, st)
		require.NoError(t, err)
		twin.opt, err = optimizers[which].make(twin.params, nil)
		require.NoError(t, err)
		r.ok(1)
		twin.ok(1)
		plan, err := r.sess.Plan(r.step, autograd.PlanConfig{Steps: 1})
		require.NoError(t, err)
		live := r.dev.Stats().Live
		n := int(plan.Steps[0].Allocs)
		for k := n; k > 0 && k > n-120; k -= 3 {
			before := r.values()
			r.dev.FailAt(int64(k))
			err := r.run()
			r.dev.FailAt(0)
			var oom *memory.OOMError
			require.ErrorAs(t, err, &oom, "allocation %d of %d", k, n)
			require.Equal(t, live, r.dev.Stats().Live)
			require.Equal(t, before, r.values(), "allocation %d of %d", k, n)
		}
		r.ok(2)
		twin.ok(2)
		r.same(twin, "after the failures")
		require.NoError(t, st.Close())
		r.close()
		twin.close()
	}
}

// TestStateDict: stored state goes to an optimizer that keeps its own on the device and comes back, a tensor at a time.
func TestStateDict(t *testing.T) {
	for _, o := range chosen() {
		t.Run(o.name, func(t *testing.T) {
			plain := newRig(t, false)
			defer plain.close()
			var err error
			plain.opt, err = o.make(plain.params, nil)
			require.NoError(t, err)
			plain.ok(5)

			r := newRig(t, false)
			defer r.close()
			st := r.open(offload.Config{Tier: offload.Disk, MinBytes: 1})
			defer func() { require.NoError(t, st.Close()) }()
			host := r.open(offload.Config{Tier: offload.Host, MinBytes: 1})
			defer func() { require.NoError(t, host.Close()) }()
			first, err := o.make(r.params, st)
			require.NoError(t, err)
			r.opt = first
			r.ok(2)
			live := r.dev.Stats().Live
			d, err := first.StateDict()
			require.NoError(t, err)
			require.Equal(t, live, r.dev.Stats().Live, "taking it reads nothing")
			for _, next := range []optim.StateStore{nil, host, st} {
				opt, err := o.make(r.params, next)
				require.NoError(t, err)
				require.NoError(t, opt.LoadStateDict(d))
				require.NoError(t, r.opt.(loadable).Close())
				r.opt = opt
				r.ok(1)
				d, err = opt.StateDict()
				require.NoError(t, err)
			}
			r.same(plain, "after three moves")

			c, err := d.Clone()
			require.NoError(t, err)
			require.Greater(t, r.dev.Stats().LiveByKind[memory.Other], int64(0))
			r.ok(1)
			require.ErrorContains(t, d.Check(), "gone on")
			if o.name != "SGD" || len(d.Params[0].Stored) > 0 {
				_, err = d.Params[0].Fetch(d.Params[0].Names()[0])
				require.Error(t, err)
			}
			require.NoError(t, r.opt.(loadable).LoadStateDict(c))
			c.Release()
			require.Zero(t, r.dev.Stats().LiveByKind[memory.Other])
		})
	}
}

// TestReleaseGradientsStored: updates inside backward, of parameters whose moments are stored.
func TestReleaseGradientsStored(t *testing.T) {
	r, plain := newRig(t, false), newRig(t, false)
	st := r.open(offload.Config{Tier: offload.Disk})
	for _, x := range []*rig{r, plain} {
		var store optim.StateStore
		if x == r {
			store = st
		}
		opt, err := optimizers[1].make(x.params, store)
		require.NoError(t, err)
		require.NoError(t, opt.ReleaseGradients())
		x.opt = opt
	}
	for range 2 {
		plantest.Compare(t, r.sess, r.step)
		plain.ok(2)
	}
	r.same(plain, "released")
	require.NoError(t, st.Close())
	r.close()
	plain.close()
}
