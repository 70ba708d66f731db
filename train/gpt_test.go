package train_test

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// gpt is a training with everything that can be saved: dropout, AdamW, warmup and cosine, clipping, a window of three
// micro-batches, averages, and a loader.
type gpt struct {
	dev    *memory.Device
	sess   *autograd.Session
	model  *nn.GPT
	opt    *optim.AdamW
	sched  optim.Schedule
	win    *train.Window
	loader *data.Loader
	ema    *nn.EMA
	count  counters
	store  *offload.Store
}

// counters are what a loop counts.
type counters struct {
	Micro, Updates int
	Loss           float64
}

// options are what must not change a training.
type options struct {
	workers int // of the loader
	store   bool
	home    bool // with store: parameters and gradients too
}

func newGPT(t testing.TB, o options) *gpt {
	t.Helper()
	g := &gpt{}
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 30})
	require.NoError(t, err)
	g.dev = dev
	if o.store {
		g.store, err = offload.Open(offload.Config{Device: dev, Tier: offload.Disk, MinBytes: 1, Dir: t.TempDir(), BlockBytes: 4096, Blocks: 4})
		require.NoError(t, err)
	}
	g.sess, err = autograd.New(autograd.Config{Device: dev, Seed: 1, Workers: 2})
	require.NoError(t, err)
	g.model, err = nn.NewGPT(g.sess, nn.GPTConfig{Vocab: 32, Context: 8, Dim: 16, Heads: 2, Layers: 2, Dropout: 0.2})
	require.NoError(t, err)
	for _, p := range nn.AllParams(g.model) {
		if o.home {
			require.NoError(t, p.SetHome(g.store))
		}
	}
	cfg := optim.AdamWConfig{LR: 0.01, WeightDecay: 0.1}
	if o.store {
		cfg.Store = g.store
	}
	g.opt, err = optim.NewAdamW(nn.Params(g.model), cfg)
	require.NoError(t, err)
	cosine, err := optim.NewCosineAnnealing(g.opt, optim.CosineConfig{TMax: 20})
	require.NoError(t, err)
	g.sched, err = optim.NewWarmup(g.opt, optim.WarmupConfig{Steps: 3, StartFactor: 0.1}, cosine)
	require.NoError(t, err)
	g.win, err = train.NewWindow(g.opt, train.WindowConfig{Micro: 3, BeforeStep: func(s *autograd.Scope) error {
		_, err := optim.ClipGradNorm(s, g.opt.Params(), 0.5)
		return err
	}})
	require.NoError(t, err)
	g.ema, err = nn.NewEMA(nn.Params(g.model), 0.9)
	require.NoError(t, err)
	text := make([]byte, 8*14+1)
	for i := range text {
		text[i] = byte(i*i%31 + i%2)
	}
	ds, err := data.Sequences(text, 8)
	require.NoError(t, err)
	g.loader, err = data.NewLoader(dev, ds, data.LoaderConfig{Batch: 2, Shuffle: true, Seed: 7, Workers: o.workers})
	require.NoError(t, err)
	return g
}

// state is all of it.
func (g *gpt) state() train.State {
	return train.State{
		Model: g.model, Optimizer: g.opt, Schedule: g.sched, Window: g.win, Loader: g.loader, EMA: g.ema,
		Parts: map[string]train.Part{"counters": train.Var(&g.count)},
	}
}

// end closes everything and checks that nothing is left.
func (g *gpt) end(t testing.TB) {
	t.Helper()
	require.NoError(t, g.sess.Close())
	if g.store != nil {
		require.NoError(t, g.store.Close())
	}
	require.NoError(t, g.dev.Close())
}

// run trains until so many micro-batches were seen; after each, save is called.
func (g *gpt) run(t testing.TB, micro int, save func()) {
	t.Helper()
	require.NoError(t, g.loader.Load(g.loader.State())) // where an earlier run left the loop
	for g.count.Micro < micro {
		for b, err := range g.loader.Epoch(t.Context(), g.loader.State().Epoch) {
			require.NoError(t, err)
			require.NoError(t, g.step(b))
			if save != nil {
				save()
			}
			if g.count.Micro == micro {
				break
			}
		}
	}
}

func (g *gpt) step(b *data.Batch) error {
	return g.sess.Step(context.Background(), func(s *autograd.Scope) error {
		loss := g.model.Loss(s, s.Input(b.X), s.Input(b.Y))
		g.count.Loss += loss.Item()
		updated, err := g.win.Backward(s, loss)
		if err != nil {
			return err
		}
		g.count.Micro++
		if updated {
			g.count.Updates++
			g.ema.Update(s)
			return g.sched.Step()
		}
		return nil
	})
}

// print is a hash of everything that a training is: two that are equal go on equal.
func (g *gpt) print(t testing.TB) uint64 {
	t.Helper()
	h := fnv.New64a()
	put := func(v any) { require.NoError(t, binary.Write(h, binary.LittleEndian, v)) }
	tens := func(x tensor.Tensor, err error) {
		require.NoError(t, err)
		if x.Empty() {
			put(int64(-1))
			return
		}
		defer x.Release()
		require.NoError(t, tensor.WriteElems(h, &x))
	}
	for _, p := range nn.AllParams(g.model) {
		tens(p.Fetch())
		tens(p.FetchGrad())
	}
	for _, e := range g.ema.State() {
		require.NoError(t, tensor.WriteElems(h, e.Tensor))
	}
	d, err := g.opt.StateDict()
	require.NoError(t, err)
	for _, gr := range d.Groups {
		for _, k := range []string{"lr", "beta1", "beta2", "eps", "weight_decay"} {
			v, ok := gr.Hyper[k]
			require.True(t, ok, "%v", gr.Hyper)
			put(v)
		}
	}
	for i := range d.Params {
		put(d.Params[i].Step)
		for _, name := range d.Params[i].Names() {
			if d.Params[i].Step > 0 {
				tens(d.Params[i].Fetch(name))
			}
		}
	}
	r := g.sess.Rand()
	put([]uint64{r.Seed, r.ID, r.Offset})
	st := g.sched.State()
	put(int64(st.Step))
	put(st.LR)
	put(st.Base)
	put(int64(st.Then.Step))
	put([]float64{float64(g.win.Position()), g.win.Loss()})
	ls := g.loader.State()
	put([]int64{int64(ls.Epoch), int64(ls.Batch)})
	put([]int64{int64(g.count.Micro), int64(g.count.Updates)})
	put(g.count.Loss)
	return h.Sum64()
}
