package nn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// lm has a tied head and a layer that occurs twice.
type lm struct {
	WTE    *nn.Embedding
	Blocks []nn.Sequential
	Head   *nn.Linear
}

func newLM(r *rig) *lm {
	emb, shared := r.embedding(5, 3), r.linear(3, 3)
	return &lm{emb, []nn.Sequential{{shared}, {nn.ReLU{}, shared}}, &nn.Linear{Weight: emb.Weight}}
}

var lmNames = []string{"wte.weight", "blocks.0.0.weight", "blocks.0.0.bias"}

func TestStateDictAliases(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m := newLM(r)
	sd := nn.StateDict(m)
	var got []string
	for _, e := range sd {
		got = append(got, e.Name)
	}
	require.Equal(t, lmNames, got)
	require.Same(t, m.WTE.Weight.Tensor(), sd.Get("wte.weight"))
	require.Nil(t, sd.Get("head.weight"))
	require.Equal(t, nn.ParamBytes(m), sd.Bytes())

	live := r.dev.Stats().Live
	snap, err := sd.Clone()
	require.NoError(t, err)
	require.Equal(t, live+sd.Bytes(), r.dev.Stats().Live)
	require.Equal(t, sd.Bytes(), r.dev.Stats().LiveByKind[memory.Other])
	require.NoError(t, tensor.Fill(m.WTE.Weight.Tensor(), 7))
	require.EqualValues(t, 7, sd.Get("wte.weight").At(0, 0))
	require.NotEqualValues(t, 7, snap.Get("wte.weight").At(0, 0))
	require.NoError(t, nn.LoadStateDict(m, snap))
	require.True(t, tensor.Equal(sd.Get("wte.weight"), snap.Get("wte.weight")))
	snap.Release()
	require.Equal(t, live, r.dev.Stats().Live)

	for k := range int64(3) {
		r.dev.FailAt(k + 1)
		_, err := sd.Clone()
		require.ErrorContains(t, err, "nn: clone of "+lmNames[k])
		require.Equal(t, live, r.dev.Stats().Live)
	}
}

func TestLoadStateDictIsStrict(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m, source := newLM(r), newLM(r)
	own := nn.StateDict(m)
	sd := nn.StateDict(source)
	wte, w, b := sd[0], sd[1], sd[2]
	other := r.linear(3, 3)
	square := own.Get("blocks.0.0.weight")
	turned, err := square.Transpose(0, 1)
	require.NoError(t, err)
	doubles := r.linear(3, 3, double).Weight.Tensor()
	virtual := virtualTensor(t, tensor.Float32, 3)
	named := func(name string, t *tensor.Tensor) nn.Entry { return nn.Entry{Name: name, Tensor: t} }

	cases := []struct {
		name string
		sd   nn.State
		want []string // problems; nil: it loads
	}{
		{"all", nn.State{wte, w, b}, nil},
		{"any order", nn.State{b, wte, w}, nil},
		{"tied under its other name", nn.State{named("head.weight", wte.Tensor), w, b}, nil},
		{"tied under both", nn.State{wte, named("head.weight", wte.Tensor), w, b}, nil},
		{"shared layer under its other name", nn.State{wte, named("blocks.1.1.weight", w.Tensor), named("blocks.1.1.bias", b.Tensor)}, nil},
		{"shared layer under both", nn.State{wte, w, b, named("blocks.1.1.weight", w.Tensor), named("blocks.1.1.bias", b.Tensor)}, nil},
		{"onto itself", own, nil},
		{"nothing", nil, []string{"missing: wte.weight float32[5 3]", "missing: blocks.0.0.weight float32[3 3]", "missing: blocks.0.0.bias float32[3]"}},
		{"missing", nn.State{wte, b}, []string{"missing: blocks.0.0.weight float32[3 3]"}},
		{"unexpected", nn.State{wte, w, b, named("blocks.1.0.weight", w.Tensor), named("head.bias", nil)},
			[]string{"unexpected: blocks.1.0.weight float32[3 3]", "unexpected: head.bias (no tensor)"}},
		{"shape", nn.State{wte, w, named("blocks.0.0.bias", wte.Tensor)}, []string{"blocks.0.0.bias: got float32[5 3]: want float32[3]"}},
		{"dtype", nn.State{wte, named("blocks.0.0.weight", doubles), b}, []string{"blocks.0.0.weight: got float64[3 3]: want float32[3 3]"}},
		{"no tensor", nn.State{wte, named("blocks.0.0.weight", nil), named("blocks.0.0.bias", &tensor.Tensor{})},
			[]string{"blocks.0.0.weight: got no tensor: want float32[3 3]", "blocks.0.0.bias: got no tensor: want float32[3]"}},
		{"no data", nn.State{wte, w, named("blocks.0.0.bias", virtual)}, []string{"blocks.0.0.bias: got float32[3] without data, made on a virtual device or in a dry run"}},
		{"twice", nn.State{wte, w, b, b}, []string{"blocks.0.0.bias: given twice"}},
		{"tied with other values", nn.State{named("head.weight", own[0].Tensor), wte, w, b}, []string{"wte.weight: other values than head.weight, and they are one tied parameter"}},
		{"its own storage, turned", nn.State{wte, named("blocks.0.0.weight", &turned), b},
			[]string{"blocks.0.0.weight: got the storage of the model's own blocks.0.0.weight, which loading writes to: want a copy (State.Clone)"}},
		{"everything", nn.State{named("wte.weight", w.Tensor), named("x", other.Bias.Tensor())},
			[]string{"wte.weight: got float32[3 3]: want float32[5 3]", "unexpected: x float32[3]", "missing: blocks.0.0.weight float32[3 3]", "missing: blocks.0.0.bias float32[3]"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			snap, err := own.Clone()
			require.NoError(t, err)
			defer snap.Release()
			err = nn.LoadStateDict(m, c.sd)
			if c.want == nil {
				require.NoError(t, err)
				for i := range sd {
					require.True(t, c.name == "onto itself" || tensor.Equal(sd[i].Tensor, own[i].Tensor))
				}
				require.NoError(t, nn.LoadStateDict(m, snap))
				return
			}
			for _, text := range c.want {
				require.ErrorContains(t, err, text)
			}
			require.ErrorContains(t, err, "nn: LoadStateDict: *nn_test.lm: nothing loaded: ")
			for i := range own {
				require.True(t, tensor.Equal(snap[i].Tensor, own[i].Tensor), "%s was written to", own[i].Name)
			}
		})
	}
}

// Parameters of one model for each other cannot be copied one by one.
func TestLoadStateDictRefusesToSwap(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m := struct{ A, B *autograd.Param }{r.param(2), r.param(2)}
	err := nn.LoadStateDict(m, nn.State{{Name: "a", Tensor: m.B.Tensor()}, {Name: "b", Tensor: m.A.Tensor()}})
	require.ErrorContains(t, err, "a: got the storage of the model's own b, which loading writes to")
	require.ErrorContains(t, err, "b: got the storage of the model's own a, which loading writes to")
}

func virtualTensor(t *testing.T, dt tensor.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	d, err := memory.NewDevice(memory.Config{Virtual: true})
	require.NoError(t, err)
	v, err := tensor.New(d, memory.Other, site, tensor.Of(dt, shape...))
	require.NoError(t, err)
	return v
}

func TestLoadStateDictKeepsAllElse(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	a, b := r.linear(3, 2), r.linear(3, 2)
	nn.SetFrozen(a, true)
	version, stats, rand := a.Weight.Tensor().Version(), r.dev.Stats(), r.sess.Rand()
	require.NoError(t, nn.LoadStateDict(a, nn.StateDict(b)))
	require.Equal(t, values(t, b.Weight.Tensor()), values(t, a.Weight.Tensor()))
	require.Greater(t, a.Weight.Tensor().Version(), version, "a graph made before must notice")
	require.True(t, a.Weight.Frozen())
	require.Equal(t, rand, r.sess.Rand())
	require.Equal(t, stats.Live, r.dev.Stats().Live)
}

func TestLoadStateDictWithinAStepIsRefused(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	a, b := r.linear(3, 2), r.linear(3, 2)
	want := values(t, a.Weight.Tensor())
	load := func(*autograd.Scope) error { return nn.LoadStateDict(a, nn.StateDict(b)) }
	err := r.sess.Step(context.Background(), load)
	require.ErrorContains(t, err, "nn: LoadStateDict: autograd: Step while a Step or Plan of this session is running")
	_, err = r.sess.Plan(load, autograd.PlanConfig{})
	require.ErrorContains(t, err, "nn: LoadStateDict: autograd: Step while a Step or Plan of this session is running")
	require.Equal(t, want, values(t, a.Weight.Tensor()))
	require.NoError(t, nn.LoadStateDict(nil, nil))

	b.Weight.Release()
	require.ErrorContains(t, nn.LoadStateDict(a, nn.StateDict(b)), "weight: got a tensor that was released: want float32[2 3]")
	require.ErrorContains(t, nn.LoadStateDict(b, nn.StateDict(a)), "weight: the parameter was released")
	require.Equal(t, want, values(t, a.Weight.Tensor()))
}

// On a virtual device there is nothing to copy, and everything to check.
func TestLoadStateDictOfAVirtualModel(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{Virtual: true})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(t, err)
	r := &rig{t, dev, sess}
	defer r.close()
	a, b := r.linear(1<<20, 1<<20), r.linear(1<<20, 1<<20)
	require.NoError(t, nn.LoadStateDict(a, nn.StateDict(b)))
	require.ErrorContains(t, nn.LoadStateDict(a, nn.StateDict(b)[1:]), "missing: weight float32[1048576 1048576]")
}

// Names that lead through cycles and several shared things are found, or not, but never for ever.
func TestLoadingThroughOtherPaths(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	kid := &node{W: r.param(1)}
	root := &node{W: r.param(1), Kids: []*node{kid}}
	kid.Parent, root.Any = root, kid
	from := floats(r, []float64{7}, 1)
	defer from.Release()
	load := func(names ...string) error {
		var sd nn.State
		for _, n := range names {
			sd = append(sd, nn.Entry{Name: n, Tensor: from})
		}
		return nn.LoadStateDict(root, sd)
	}
	require.NoError(t, load("w", "kids.0.w"))
	require.NoError(t, load("kids.0.parent.w", "any.w"))
	require.NoError(t, load("any.parent.any.parent.w", "any.parent.kids.0.w"))
	require.ErrorContains(t, load("w", "kids.0.w", "any.parent.any.x"), "unexpected: any.parent.any.x float64[1]")

	// an embedded pointer to something seen before goes by the path of what embeds it
	type loop struct {
		X *node
		*node
	}
	require.ErrorContains(t, nn.LoadStateDict(&loop{kid, kid}, nn.State{{Name: "q", Tensor: from}}), "unexpected: q")
}
