package offload_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// halves is a training of parameters in BFloat16, of several tiles and of less than one.
type halves struct {
	sess   *autograd.Session
	dev    *memory.Device
	params []*autograd.Param
	opt    loadable
}

func newHalves(t *testing.T, adafactor bool, u optim.HalfUpdate, st func(*memory.Device) optim.StateStore) *halves {
	t.Helper()
	h := &halves{}
	var err error
	h.dev, err = memory.NewDevice(memory.Config{Reserve: 1 << 26})
	require.NoError(t, err)
	h.sess, err = autograd.New(autograd.Config{Device: h.dev, Seed: 5, Workers: 2})
	require.NoError(t, err)
	for i, n := range []int{300, 3} {
		p, err := h.sess.NewParam(fmt.Sprint("w", i), tensor.Of(tensor.BFloat16, n, 1000), func(t *tensor.Tensor, r *tensor.Stream) error {
			return tensor.FillNormal(t, r, 0, 1)
		})
		require.NoError(t, err)
		h.params = append(h.params, p)
	}
	var store optim.StateStore
	if st != nil {
		store = st(h.dev)
	}
	if adafactor {
		h.opt, err = optim.NewAdafactor(h.params, optim.AdafactorConfig{LR: 0.05, Half: u, Store: store})
	} else {
		h.opt, err = optim.NewAdamW(h.params, optim.AdamWConfig{LR: 1e-2, WeightDecay: 0.1, Half: u, Store: store})
	}
	require.NoError(t, err)
	return h
}

func (h *halves) step(s *autograd.Scope) error {
	for _, p := range h.params {
		ops.Sum(s, ops.Square(s, p.Value())).Backward(s)
	}
	defer h.opt.ZeroGrad(s)
	return h.opt.Step(s)
}

func (h *halves) values() (all []tensor.BF16) {
	for _, p := range h.params {
		all = append(all, tensor.Data[tensor.BF16](p.Tensor())...)
	}
	return all
}

// Each way of rounding draws the same words and keeps the same bits when its state passes through a store, tile by tile.
func TestHalfUpdates(t *testing.T) {
	for _, adafactor := range []bool{false, true} {
		for _, u := range []optim.HalfUpdate{optim.RoundStochastic, optim.RoundKahan, optim.MasterWeights} {
			if adafactor && u != optim.RoundStochastic {
				continue
			}
			plain := newHalves(t, adafactor, u, nil)
			for range 3 {
				require.NoError(t, plain.sess.Step(t.Context(), plain.step))
			}
			for _, tier := range []offload.Tier{offload.Host, offload.Disk} { // the one is updated in place, the other is not
				var st *offload.Store
				h := newHalves(t, adafactor, u, func(d *memory.Device) optim.StateStore {
					var err error
					st, err = offload.Open(offload.Config{Tier: tier, Device: d, Dir: t.TempDir(), Files: &faulty{}, MinBytes: 1})
					require.NoError(t, err)
					return st
				})
				require.Zero(t, h.dev.Stats().LiveByKind[memory.OptState], u)
				plantest.Compare(t, h.sess, h.step)
				require.NoError(t, h.sess.Step(t.Context(), h.step))
				got, want := h.values(), plain.values()
				for i := range want {
					if got[i] != want[i] {
						require.FailNow(t, "other bits", "%s %s, element %d: %v and %v", u, tier, i, got[i], want[i])
					}
				}
				require.NoError(t, h.sess.Close())
				require.NoError(t, st.Close())
				require.NoError(t, h.dev.Close())
			}
			require.NoError(t, plain.sess.Close())
			require.NoError(t, plain.dev.Close())
		}
	}
}
