package checkpoint_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/train"
)

// partner is another technique, laid around a model's loss or under its parameters.
type partner struct {
	name   string
	around func(s *autograd.Scope) *autograd.Scope
	open   func(t *testing.T, r *rig, params []*autograd.Param) (done func())
	store  *offload.Store
}

func partners(tier offload.Tier) []*partner {
	store := func(p *partner, r *rig, t *testing.T) func() {
		st, err := offload.Open(offload.Config{Device: r.dev, Tier: tier, BlockBytes: 4096, Blocks: 4})
		require.NoError(t, err)
		p.store = st
		return func() { require.NoError(t, st.Close()) }
	}
	bf16 := func(s *autograd.Scope) *autograd.Scope { return s.WithAutocast(amp.BFloat16) }
	off := &partner{name: "offload"}
	off.around = func(s *autograd.Scope) *autograd.Scope { return s.WithSaver(off.store) }
	off.open = func(t *testing.T, r *rig, _ []*autograd.Param) func() { return store(off, r, t) }
	both := &partner{name: "autocast and offload"}
	both.around = func(s *autograd.Scope) *autograd.Scope { return bf16(s).WithSaver(both.store) }
	both.open = func(t *testing.T, r *rig, _ []*autograd.Param) func() { return store(both, r, t) }
	home := &partner{name: "parameters in a store", around: func(s *autograd.Scope) *autograd.Scope { return s }}
	home.open = func(t *testing.T, r *rig, params []*autograd.Param) func() {
		done := store(home, r, t)
		for _, p := range params {
			require.NoError(t, p.SetHome(home.store))
		}
		return func() {
			for _, p := range params {
				p.ZeroGrad()
				require.NoError(t, p.SetHome(nil))
			}
			done()
		}
	}
	return []*partner{{name: "autocast", around: bf16}, off, both, home}
}

// N1 and M3 for recomputation beside other techniques: with the partner alone, and with both, every bit is the same after
// 50 steps. Files, which take their time, see 4 steps of one model; build tag long has 50 of all (TestPairsOnDisk).
func TestPairs(t *testing.T) {
	t.Run("disk", func(t *testing.T) { testPairs(t, offload.Disk, 4, gptTask) })
	if !testing.Short() {
		t.Run("host", func(t *testing.T) { testPairs(t, offload.Host, 50, gptTask, vitTask, convChain) })
	}
}

func testPairs(t *testing.T, tier offload.Tier, steps int, tasks ...func(*rig, int) *task) {
	host, err := memory.NewDevice(memory.Config{Name: "host", Reserve: 1 << 30})
	require.NoError(t, err)
	for _, p := range partners(tier) {
		for _, open := range tasks {
			name := ""
			run := func(t *testing.T, v *variant) (losses []float64, params [][]float32) {
				r := newRig(t)
				defer r.close()
				k := open(r, 4)
				defer k.close()
				if name = k.name; v != nil {
					k.chain(checkpoint.Chain(v.schedule, v.opts...))
				}
				return p.train(r, k, steps)
			}
			losses, params := run(t, nil)
			for _, v := range variants(t, &hostSaver{host}) {
				if testing.Short() && !slices.Contains([]string{"recursive", "mixed", "some-offloaded"}, v.name) {
					continue
				}
				t.Run(p.name+"/"+name+"/"+v.name, func(t *testing.T) {
					gotLosses, gotParams := run(t, &v)
					require.Equal(t, losses, gotLosses)
					require.Equal(t, params, gotParams)
				})
			}
		}
	}
	require.NoError(t, host.Close())
}

// train compares a dry run of k beside the partner with the real one, and trains.
func (p *partner) train(r *rig, k *task, steps int) (losses []float64, params [][]float32) {
	r.t.Helper()
	done := func() {}
	if p.open != nil {
		done = p.open(r.t.(*testing.T), r, nn.Params(k.model))
	}
	plain := k.loss
	k.loss = func(s *autograd.Scope) *autograd.Value { return plain(p.around(s)) }
	plantest.Compare(r.t.(*testing.T), r.sess, func(s *autograd.Scope) error {
		k.loss(s).Backward(s)
		return nil
	})
	for _, q := range nn.Params(k.model) {
		q.ZeroGrad()
	}
	return k.trainHomes(r, steps, done)
}

// Gradient release updates a block's parameters while blocks below are yet to be recomputed; micro-batches come one after
// the other.
func TestReleaseAndWindow(t *testing.T) {
	for _, release := range []bool{true, false} {
		run := func(v *variant) (losses []float64, params [][]float32) {
			r := newRig(t)
			defer r.close()
			k := gptTask(r, 4)
			defer k.close()
			if v != nil {
				k.chain(checkpoint.Chain(v.schedule, v.opts...))
			}
			opt, err := optim.NewAdamW(nn.Params(k.model), optim.AdamWConfig{LR: 1e-2})
			require.NoError(t, err)
			micro := 3
			if release {
				require.NoError(t, opt.ReleaseGradients())
				micro = 1
			}
			w, err := train.NewWindow(opt, train.WindowConfig{Micro: micro})
			require.NoError(t, err)
			for range 6 {
				require.NoError(t, r.sess.Step(context.Background(), func(s *autograd.Scope) error {
					for range micro {
						loss := k.loss(s)
						losses = append(losses, loss.Item())
						if _, err := w.Backward(s, loss); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			for _, p := range nn.AllParams(k.model) {
				params = append(params, values(t, p.Tensor()))
			}
			return losses, params
		}
		losses, params := run(nil)
		for _, v := range variants(t, nil) {
			if v.name == "dear-offloaded" || v.name == "some-offloaded" {
				continue
			}
			gotLosses, gotParams := run(&v)
			require.Equal(t, losses, gotLosses, v.name)
			require.Equal(t, params, gotParams, v.name)
		}
	}
}
