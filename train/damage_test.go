package train_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/durable"
	"github.com/thimble-ml/thimble/internal/durable/durabletest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// stride is how many operations the default form goes on between two that fail; the long form has all of them fail.
var stride = 5

// tiny is a training whose file is small enough to be damaged at every byte.
func tiny(t *testing.T) (*rig, *train.Window, train.State) {
	r := newRig(t)
	win := r.window(train.WindowConfig{Micro: 2})
	return r, win, train.State{Model: map[string]*autograd.Param{"w": r.w, "b": r.b}, Optimizer: r.opt, Window: win}
}

// S3: a file that is cut anywhere, is longer, or has one other bit is refused by an error that names it, and nothing changes.
func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	r, win, st := tiny(t)
	require.NoError(t, r.adds(win, nil, 0, 1, 2))
	require.NoError(t, train.Save(path, st))
	r.close()
	good := read(t, path)

	q, _, st := tiny(t)
	defer q.close()
	before, live := q.values(), q.dev.Stats().Live
	refused := func(b []byte, what string, at int) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, b, 0o600))
		_, err := train.Load(path, st)
		require.ErrorContains(t, err, "train: Load: "+path+": ", "%s %d", what, at)
		require.Equal(t, before, q.values())
		require.Equal(t, live, q.dev.Stats().Live)
		require.Zero(t, q.count())
		require.Zero(t, st.Window.Position())
	}
	for n := 0; n < len(good); n += stride {
		refused(good[:n], "cut at", n)
	}
	refused(append(good[:len(good):len(good)], 0), "longer than", len(good))
	bad := make([]byte, len(good))
	for i := 0; i < len(good); i += stride {
		copy(bad, good)
		bad[i] ^= 1 << (i % 8)
		refused(bad, "flipped", i)
	}
	require.NoError(t, os.WriteFile(path, good, 0o600))
	_, err := train.Load(path, st)
	require.NoError(t, err)
	require.EqualValues(t, 1, q.count())
	require.Equal(t, 1, st.Window.Position())
}

// S2: whatever operation on files fails during Save, the old file stays, nothing of the training has changed, nothing is left
// on the device or in the folder; the next Save succeeds.
func TestSaveFails(t *testing.T) {
	for _, o := range []options{{}, {store: true}} {
		g := newGPT(t, o)
		g.run(t, 7, nil)
		dir := t.TempDir()
		path := filepath.Join(dir, "state")
		require.NoError(t, train.Save(path, g.state()))
		old := read(t, path)
		g.run(t, 8, nil)
		print, live, routines := g.print(t), g.dev.Stats().Live, runtime.NumGoroutine()
		for _, kind := range []durabletest.Kind{durabletest.Error, durabletest.Short, durabletest.Death} {
			require.NoError(t, os.WriteFile(path, old, 0o600))
			for at := 1; ; at++ {
				files := durabletest.New(kind, at)
				err := train.SaveTo(files, path, g.state())
				require.Equal(t, print, g.print(t))
				require.Equal(t, live, g.dev.Stats().Live)
				if !files.Hit() {
					require.NoError(t, err)
					break
				}
				require.ErrorContains(t, err, "train: Save: write "+path+": ")
				require.True(t, errors.Is(err, durabletest.Err) || kind == durabletest.Short, "%v", err)
				list, err := os.ReadDir(dir)
				require.NoError(t, err)
				if kind != durabletest.Death {
					require.Len(t, list, 1)
				}
				if files.Last() != "syncdir" {
					require.True(t, bytes.Equal(old, read(t, path)), "%v %s %d", kind, files.Last(), at)
				}
				require.NoError(t, os.WriteFile(path, old, 0o600))
			}
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), routines)
		require.NotEqual(t, old, read(t, path))
		g.end(t)
	}
}

// A bit that another wrote wrong is found by Load.
func TestSaveFlips(t *testing.T) {
	g := newGPT(t, options{})
	defer g.end(t)
	g.run(t, 7, nil)
	path := filepath.Join(t.TempDir(), "state")
	for at := 1; ; at++ {
		files := durabletest.New(durabletest.Flip, at)
		require.NoError(t, train.SaveTo(files, path, g.state()))
		if !files.Hit() {
			break
		}
		h := newGPT(t, options{})
		before := h.print(t)
		_, err := train.Load(path, h.state())
		require.ErrorContains(t, err, "train: Load: "+path)
		require.Equal(t, before, h.print(t))
		h.end(t)
	}
}

// S5: whatever read fails, is short, or gives another bit, Load says so. Before it has changed anything nothing changes; after
// that the session refuses steps until a Load succeeds, and then all is well.
func TestLoadFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	g := newGPT(t, options{})
	g.run(t, 7, nil)
	require.NoError(t, train.Save(path, g.state()))
	want := g.print(t)
	g.run(t, 9, nil)
	end := g.print(t)
	g.end(t)
	for _, o := range []options{{}, {store: true}} {
		h := newGPT(t, o)
		h.run(t, 2, nil)
		every := stride
		if o.store && stride > 1 {
			every *= 6 // the disk takes its time
		}
		for i, kind := range []durabletest.Kind{durabletest.Error, durabletest.Short, durabletest.Flip} {
			if o.store && i > 0 && stride > 1 {
				continue
			}
			early, late := 0, 0
			for at := 1 + i; ; at += every {
				before, live := h.print(t), h.dev.Stats().Live
				files := durabletest.New(kind, at)
				_, err := train.LoadFrom(files, path, h.state())
				if !files.Hit() {
					require.NoError(t, err)
					break
				}
				require.ErrorContains(t, err, path)
				if _, broken := h.opt.StateDict(); h.sess.Refused() == nil && broken == nil {
					early++
					require.Equal(t, before, h.print(t))
					require.Equal(t, live, h.dev.Stats().Live)
					continue
				}
				late++
				require.ErrorContains(t, train.Save(path+" of nothing", h.state()), "half loaded")
				err = h.sess.Step(t.Context(), func(s *autograd.Scope) error { return h.opt.Step(s) })
				require.ErrorContains(t, err, "half loaded")
				_, err = train.Load(path, h.state())
				require.NoError(t, err)
				require.Equal(t, want, h.print(t))
				require.NoError(t, h.sess.Refused())
			}
			require.Greater(t, early, 40/every)
			require.Greater(t, late, 20/every)
		}
		require.Equal(t, want, h.print(t))
		h.run(t, 9, nil)
		require.Equal(t, end, h.print(t), "%+v", o)
		h.end(t)
	}
}

// Every allocation of a Load can fail: an OOMError, and everything as before.
func TestLoadWithoutMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	g := newGPT(t, options{})
	g.run(t, 7, nil)
	require.NoError(t, train.Save(path, g.state()))
	g.end(t)
	for _, o := range []options{{}, {store: true}} {
		h := newGPT(t, o)
		before, live := h.print(t), h.dev.Stats().Live
		fails := 0
		for n := int64(1); ; n += int64(stride) {
			h.dev.FailAt(n)
			_, err := train.Load(path, h.state())
			h.dev.FailAt(0)
			if err == nil {
				break
			}
			var oom *memory.OOMError
			require.ErrorAs(t, err, &oom)
			if _, broken := h.opt.StateDict(); broken != nil { // it reads its moments twice, and had begun
				require.ErrorContains(t, err, "half loaded")
				_, err := train.Load(path, h.state())
				require.NoError(t, err)
				h.end(t)
				h = newGPT(t, o)
				continue
			}
			require.Equal(t, before, h.print(t))
			require.Equal(t, live, h.dev.Stats().Live)
			fails++
		}
		require.Greater(t, fails, 30/stride)
		h.end(t)
	}
}

// S4: a training of another shape: one error says what does not match.
func TestLoadIsStrict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	g := newGPT(t, options{})
	g.run(t, 7, nil)
	require.NoError(t, train.Save(path, g.state()))
	g.end(t)
	h := newGPT(t, options{})
	defer h.end(t)
	before := h.print(t)
	refused := func(st train.State, texts ...string) {
		t.Helper()
		_, err := train.Load(path, st)
		for _, text := range append(texts, "train: Load: "+path+": ") {
			require.ErrorContains(t, err, text)
		}
		require.Equal(t, before, h.print(t))
		require.NoError(t, h.sess.Refused())
	}
	change := func(f func(st *train.State)) train.State {
		st := h.state()
		f(&st)
		return st
	}
	refused(change(func(st *train.State) { st.Optimizer, st.Schedule, st.Window = nil, nil, nil }),
		"nothing loaded: ", "unexpected: the file has the state of an optimizer", "of schedule, and there is none", "of window")
	refused(change(func(st *train.State) { st.EMA = nil }), "unexpected: ema.blocks.0.fc.bias F32[64]", "and 8 more")
	refused(change(func(st *train.State) { st.Loader = nil }), "nothing loaded: unexpected: the file has the state of loader")
	refused(change(func(st *train.State) { st.Parts = map[string]train.Part{"other": train.Var(new(int))} }),
		"unexpected: the file has the state of parts.counters", "missing: the file has no state of parts.other")
	refused(train.State{}, "has no parameters")

	bigger, err := nn.NewGPT(h.sess, nn.GPTConfig{Vocab: 33, Context: 8, Dim: 16, Heads: 2, Layers: 3})
	require.NoError(t, err)
	opt, err := optim.NewAdamW(nn.Params(bigger), optim.AdamWConfig{LR: 1})
	require.NoError(t, err)
	refused(change(func(st *train.State) { st.Model, st.Optimizer = bigger, opt }),
		"model.wte.weight: it is F32[32 16] in the file: want float32[33 16]", "missing: model.blocks.2.fc.bias float32[64]", "14 things do not match")
	sgd, err := optim.NewSGD(nn.Params(h.model), optim.SGDConfig{LR: 1})
	require.NoError(t, err)
	refused(change(func(st *train.State) { st.Optimizer = sgd }), `the state is of "AdamW": want one of "SGD"`)
	params := nn.Params(h.model)
	params[0], params[1] = params[1], params[0]
	swapped, err := optim.NewAdamW(params, optim.AdamWConfig{LR: 1})
	require.NoError(t, err)
	refused(change(func(st *train.State) { st.Optimizer = swapped }), "parameter 0 is wpe.weight, but the state there is of wte.weight")
	win, err := train.NewWindow(h.opt, train.WindowConfig{Micro: 4})
	require.NoError(t, err)
	refused(change(func(st *train.State) { st.Window = win }), "window: the state is of windows of 3 micro-batches: want 4")
	refused(change(func(st *train.State) { st.Parts = map[string]train.Part{"counters": train.Var(new(string))} }), "parts.counters: json: cannot unmarshal")
	require.NoError(t, h.sess.Step(t.Context(), func(*autograd.Scope) error {
		_, err := train.Load(path, h.state())
		require.ErrorContains(t, err, "a step is running")
		return nil
	}))

	weights := filepath.Join(t.TempDir(), "weights")
	require.NoError(t, nn.SaveSafetensors(weights, h.model, nil))
	_, err = train.Load(weights, h.state())
	require.ErrorContains(t, err, weights+": it is not a training state (weights alone are for nn.LoadSafetensors)")
	require.NoError(t, nn.SaveSafetensors(weights, h.model, map[string]string{"format": "thimble training state", "version": "2"}))
	_, err = train.Load(weights, h.state())
	require.ErrorContains(t, err, `version "2" of a training state: want 1`)
	require.NoError(t, nn.SaveSafetensors(weights, h.model, map[string]string{"format": "thimble training state", "version": "1", "state": "{}"}))
	_, err = train.Load(weights, h.state())
	require.ErrorContains(t, err, "not that of the checksums")
	require.NoError(t, nn.SaveSafetensors(weights, h.model, map[string]string{"format": "thimble training state", "version": "1", "state": "{"}))
	_, err = train.Load(weights, h.state())
	require.ErrorContains(t, err, "its header: unexpected end of JSON")
}

// The optimizer's own state decides: hyper-parameters of the file win, and bring the moments they need.
func TestHyperParametersOfTheFileWin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	build := func(cfg optim.SGDConfig) (*rig, *optim.SGD, train.State) {
		r := newRig(t)
		opt, err := optim.NewSGD([]*autograd.Param{r.w, r.b}, cfg)
		require.NoError(t, err)
		return r, opt, train.State{Model: []*autograd.Param{r.w, r.b}, Optimizer: opt}
	}
	step := func(r *rig, opt *optim.SGD) {
		require.NoError(t, r.step(func(s *autograd.Scope) error {
			r.loss(s, 0, micro).Backward(s)
			err := opt.Step(s)
			opt.ZeroGrad(s)
			return err
		}))
	}
	r, opt, st := build(optim.SGDConfig{LR: 0.05, Momentum: 0.9})
	step(r, opt)
	require.NoError(t, train.Save(path, st))
	step(r, opt)
	want := r.values()
	r.close()
	q, opt, st := build(optim.SGDConfig{LR: 3})
	_, err := train.Load(path, st)
	require.NoError(t, err)
	step(q, opt)
	require.Equal(t, want, q.values())
	q.close()
}

// A header that lies is found before anything is taken for it.
func FuzzLoad(f *testing.F) {
	path := filepath.Join(f.TempDir(), "state")
	dev, err := memory.NewDevice(memory.Config{Limit: 1 << 20})
	require.NoError(f, err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(f, err)
	w, err := sess.NewParam("w", tensor.Of(tensor.Float32, 3), nil)
	require.NoError(f, err)
	opt, err := optim.NewAdamW([]*autograd.Param{w}, optim.AdamWConfig{LR: 1})
	require.NoError(f, err)
	step := 7
	st := train.State{Model: w, Optimizer: opt, Parts: map[string]train.Part{"step": train.Var(&step)}}
	require.NoError(f, train.Save(path, st))
	b, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<40))
	f.Add([]byte(strings.Replace(string(b), "[3]", "[9]", 1)))
	live := dev.Stats().Live
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		dev.ResetPeak()
		_, err := train.LoadFrom(durable.OS, path, st)
		require.Equal(t, live, dev.Stats().Live)
		require.LessOrEqual(t, dev.Stats().Peak, live+int64(len(b)))
		require.NoError(t, sess.Refused())
		if err != nil {
			require.ErrorContains(t, err, path)
		}
	})
}
