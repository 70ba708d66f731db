package train_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/durable/durabletest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// quick is the system's files, without waiting for the disk.
var quick = durabletest.New(durabletest.Error, 0)

// length is the micro-batches of a whole training: five epochs of seven, eleven windows of three and two more.
const length = 35

// unbroken is the fingerprint after every micro-batch of a training that never stops.
func unbroken(t testing.TB, o options) []uint64 {
	t.Helper()
	g := newGPT(t, o)
	defer g.end(t)
	prints := []uint64{g.print(t)}
	g.run(t, length, func() { prints = append(prints, g.print(t)) })
	require.Len(t, prints, length+1)
	return prints
}

// N3, S1: a training that is stopped anywhere, within a window, within an epoch, any number of times, and goes on in another
// process with other workers and another place for its state, is the one that never stopped, to the bit.
func TestResumeIsNeverStopped(t *testing.T) {
	prints := unbroken(t, options{})
	strides := []int{1, 4, 16}
	if stride > 1 { // not the long form
		strides = strides[1:]
	}
	for _, stride := range strides {
		path := filepath.Join(t.TempDir(), "state.safetensors")
		life := 0
		for at := 0; at < length; at = min(at+stride, length) {
			g := newGPT(t, options{workers: life % 3, store: life%4 == 1})
			if at > 0 {
				info, err := train.Load(path, g.state())
				require.NoError(t, err)
				require.True(t, info.Exact)
				require.Equal(t, prints[at], g.print(t), "loaded what was saved after %d", at)
			}
			require.Equal(t, at, g.count.Micro)
			g.run(t, min(at+stride, length), nil)
			require.Equal(t, prints[g.count.Micro], g.print(t), "stride %d, after %d", stride, g.count.Micro)
			live := g.dev.Stats().Live
			require.NoError(t, train.SaveTo(quick, path, g.state()))
			require.Equal(t, live, g.dev.Stats().Live)
			g.end(t)
			life++
		}
	}
}

// Saving changes nothing, and the same state is the same bytes, wherever the moments are.
func TestSaveIsDeterministic(t *testing.T) {
	dir := t.TempDir()
	var files [][]byte
	for i, o := range []options{{}, {workers: 2}, {store: true}} {
		g := newGPT(t, o)
		g.run(t, 8, nil)
		before := g.print(t)
		path := filepath.Join(dir, fmt.Sprint(i))
		for range 2 {
			require.NoError(t, train.Save(path, g.state()))
			files = append(files, read(t, path))
		}
		require.Equal(t, before, g.print(t))
		g.end(t)
	}
	for _, f := range files {
		require.Equal(t, files[0], f)
	}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 3, "no temporary files")
}

// A state file is a safetensors file: its weights load into a model alone.
func TestWeightsOfAState(t *testing.T) {
	g := newGPT(t, options{})
	defer g.end(t)
	g.run(t, 4, nil)
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, train.Save(path, g.state()))
	h := newGPT(t, options{})
	defer h.end(t)
	require.NoError(t, nn.LoadSafetensors(path, h.model, nn.LoadConfig{Prefix: "model."}))
	a, b := nn.StateDict(g.model), nn.StateDict(h.model)
	for i := range a {
		require.True(t, tensor.Equal(a[i].Tensor, b[i].Tensor))
	}
	f, err := nn.OpenSafetensors(path)
	require.NoError(t, err)
	require.Contains(t, f.Names(), "grad.wte.weight", "of a window with one of three micro-batches in")
	require.Contains(t, f.Names(), "ema.wte.weight")
	require.Contains(t, f.Names(), "optimizer.0.exp_avg")
	require.Equal(t, "thimble training state", f.Metadata()["format"])
	require.NoError(t, f.Close())
}

// S6: loading takes the gradients of a window that is not full, and beyond that no more than one moment at a time.
func TestLoadTakesLittle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	g := newGPT(t, options{})
	g.run(t, 7, nil)
	require.NoError(t, train.Save(path, g.state()))
	g.end(t)
	h := newGPT(t, options{})
	defer h.end(t)
	before := h.dev.Stats()
	grads, largest := nn.ParamBytes(h.model), int64(0)
	for _, p := range nn.AllParams(h.model) {
		largest = max(largest, p.Spec().Bytes())
	}
	h.dev.ResetPeak()
	_, err := train.Load(path, h.state())
	require.NoError(t, err)
	require.Equal(t, before.Live+grads, h.dev.Stats().Live)
	require.Equal(t, grads, h.dev.Stats().LiveByKind[memory.Grad])
	require.Equal(t, before.Live+grads+largest, h.dev.Stats().Peak)

	// what was there before a load does not stay
	require.NoError(t, train.Save(path, h.state()))
	h.run(t, 8, nil)
	_, err = train.Load(path, h.state())
	require.NoError(t, err)
	require.Equal(t, before.Live+grads, h.dev.Stats().Live)
	h.run(t, 9, nil)
	require.NoError(t, train.Save(path, h.state()))
	h.run(t, 10, nil)
	_, err = train.Load(path, h.state())
	require.NoError(t, err)
	require.Equal(t, before.Live, h.dev.Stats().Live, "the saved window was empty: so are the gradients")
	h.run(t, 12, nil)
	require.Equal(t, unbroken(t, options{})[12], h.print(t))
}

// S1: parameters and gradients in a store are saved from there and loaded into it.
func TestStateOfAHome(t *testing.T) {
	prints := unbroken(t, options{})
	path := filepath.Join(t.TempDir(), "state")
	at := 0
	for i, until := range []int{4, 9, 13} {
		g := newGPT(t, options{store: true, home: i != 1})
		if at > 0 {
			_, err := train.Load(path, g.state())
			require.NoError(t, err)
		}
		require.Equal(t, prints[at], g.print(t))
		g.run(t, until, nil)
		at = until
		require.Equal(t, prints[at], g.print(t))
		live := g.dev.Stats().Live
		require.NoError(t, train.Save(path, g.state()))
		require.Equal(t, live, g.dev.Stats().Live)
		g.end(t)
	}
}

// A training begins where there is no file.
func TestLoadWithoutAFile(t *testing.T) {
	g := newGPT(t, options{})
	defer g.end(t)
	path := filepath.Join(t.TempDir(), "none")
	_, err := train.Load(path, g.state())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "train: Load: ")
	require.ErrorContains(t, err, path)
}

func TestSaveRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	g := newGPT(t, options{})
	defer g.end(t)
	refused := func(st train.State, want string) {
		t.Helper()
		err := train.Save(path, st)
		require.ErrorContains(t, err, "train: Save: ")
		require.ErrorContains(t, err, want)
		list, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, list)
	}
	refused(train.State{}, "has no parameters")
	refused(train.State{Model: g.model.WTE, Optimizer: g.opt}, "the optimizer updates wpe.weight, which is not a parameter of the model")
	refused(train.State{Model: g.model, Optimizer: wrapped{g.opt}}, "train_test.wrapped, has no StateDict")
	bad := math.Inf(1)
	refused(train.State{Model: g.model, Parts: map[string]train.Part{"best": train.Var(&bad)}}, "parts.best: json: unsupported value: +Inf")
	refused(train.State{Model: struct{ X *tensor.Tensor }{}}, "has no parameters")
	other := newGPT(t, options{})
	defer other.end(t)
	refused(train.State{Model: []any{g.model, other.model}}, "belongs to another session")
	steps, err := train.NewWindow(g.opt, train.WindowConfig{Micro: 1, Schedule: g.sched})
	require.NoError(t, err)
	refused(train.State{Model: g.model, Window: steps}, "the window steps a schedule: want it as State.Schedule")
	scaled, err := train.NewWindow(g.opt, train.WindowConfig{Micro: 1, Scaler: noScaler{}})
	require.NoError(t, err)
	refused(train.State{Model: g.model, Window: scaled}, "the window has a loss scaler: want it as State.Scaler")
	require.NoError(t, g.ema.Swap())
	refused(g.state(), "Swap them back")
	require.NoError(t, g.ema.Swap())
	require.NoError(t, g.sess.Step(t.Context(), func(*autograd.Scope) error {
		refused(g.state(), "a step is running")
		return nil
	}))
	dev, err := memory.NewDevice(memory.Config{Virtual: true})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(t, err)
	defer sess.Close()
	fc, err := nn.NewLinear(sess, 2, 2)
	require.NoError(t, err)
	refused(train.State{Model: fc}, "is virtual")
}

// wrapped hides all but what windows need.
type wrapped struct{ optim.Optimizer }

// noScaler is a scaler that nobody asks.
type noScaler struct{ train.Scaler }

// A scaler is saved by its functions, a second loader or schedule by State and Load.
func TestParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	build := func() (*gpt, *float64, train.State) {
		g, factor := newGPT(t, options{}), new(float64)
		state := func() map[string]float64 { return map[string]float64{"scale": *factor} }
		load := func(m map[string]float64) error {
			if m["scale"] <= 0 {
				return errMine
			}
			*factor = m["scale"]
			return nil
		}
		st := train.State{Model: g.model, Optimizer: g.opt, Scaler: train.Func(state, load), Parts: map[string]train.Part{"second": train.Of(g.loader)}}
		return g, factor, st
	}
	g, factor, st := build()
	defer g.end(t)
	*factor = 65536
	g.run(t, 2, nil)
	require.NoError(t, train.Save(path, st))
	h, factor, st := build()
	defer h.end(t)
	_, err := train.Load(path, st)
	require.NoError(t, err)
	require.Equal(t, 65536.0, *factor)
	require.Equal(t, g.loader.State(), h.loader.State())

	*factor = -1 // which Load refuses: nothing changes, the loader, loaded before it, neither
	before := h.loader.State()
	g.run(t, 3, nil)
	bad := st
	bad.Scaler = train.Func(func() map[string]float64 { return map[string]float64{"scale": -1} }, func(map[string]float64) error { return nil })
	bad.Parts = map[string]train.Part{"second": train.Of(g.loader)}
	require.NoError(t, train.Save(path, bad))
	_, err = train.Load(path, st)
	require.ErrorIs(t, err, errMine)
	require.ErrorContains(t, err, "scaler: ")
	require.Equal(t, before, h.loader.State())
	require.Equal(t, -1.0, *factor)
}

// Gradients half added are not a state.
func TestSaveRefusesStaleGradients(t *testing.T) {
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: 3})
	require.NoError(t, r.adds(win, nil, 0))
	require.ErrorIs(t, r.adds(win, errMine, 1), errMine)
	path := filepath.Join(t.TempDir(), "state")
	st := train.State{Model: []*autograd.Param{r.w, r.b}, Optimizer: r.opt, Window: win}
	require.ErrorContains(t, train.Save(path, st), "was left half added by a failed step: call ZeroGrad, or Window.Discard")
	require.NoError(t, r.step(func(s *autograd.Scope) error { win.Discard(s); return nil }))
	require.NoError(t, train.Save(path, st))
	require.NoError(t, r.adds(win, nil, 0))
	other := r.window(train.WindowConfig{Micro: 3})
	require.NoError(t, train.Save(path, train.State{Model: []*autograd.Param{r.w, r.b}, Optimizer: r.opt, Window: other}))
}

// The kernels that a state was saved with are reported.
func TestInfo(t *testing.T) {
	f := thimble.Features()
	same := train.Info{Arch: f.Arch, Kernel: f.Kernel, Exact: true}
	require.Equal(t, fmt.Sprintf("saved with %s kernels on %s, as they are here", f.Kernel, f.Arch), same.String())
	other := train.Info{Arch: "wasm", Kernel: "simd"}
	require.Contains(t, other.String(), "saved with simd kernels on wasm: results here, "+f.Kernel+" on "+f.Arch+", will differ in rounding")
}
