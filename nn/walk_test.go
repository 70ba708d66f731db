package nn_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

type (
	attention struct{ QKV, Proj *nn.Linear }
	feed      struct{ FC1, FC2 nn.Linear }
	block     struct {
		LN1  *nn.LayerNorm
		Attn *attention
		MLP  feed
	}
	gpt struct {
		Size      int
		WTE       *nn.Embedding
		Blocks    []*block
		FinalNorm *nn.LayerNorm
		LMHead    *nn.Linear
	}
	// inner is embedded: its parameters go by the outer struct's name.
	inner struct{ Weight *autograd.Param }
	Outer struct {
		inner
		Bias *autograd.Param
	}
	// wrap runs a module in some other way.
	wrap struct{ m any }
	// slot is a wrapper held by value, with a pointer's method.
	slot struct{ m any }
	// fresh makes something new at each call.
	fresh struct{ p *autograd.Param }
	// adapter has parameters beside the wrapper that it embeds.
	adapter struct {
		wrap
		A *autograd.Param
	}
	Wrap struct{ M any }
	// Adapter embeds what it wraps.
	Adapter struct {
		A *autograd.Param
		*Wrap
	}
	// list is embedded, but not a struct: out of reach.
	list []*nn.Linear
	node struct {
		Parent *node
		W      *autograd.Param
		Kids   []*node
		Any    any
		All    map[string]any
	}
)

func (w wrap) Unwrap() any  { return w.m }
func (w *Wrap) Unwrap() any { return w.M }
func (w *slot) Unwrap() any { return w.m }
func (f fresh) Unwrap() any { return &struct{ Deep any }{&struct{ W *autograd.Param }{f.p}} }

func TestNames(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	p, q := r.param(1), r.param(2)
	lin, norm := r.linear(2, 3), r.norm(2)
	noBias := r.linear(2, 3, nn.LinearConfig{NoBias: true})
	tied := r.embedding(5, 2)
	blk := func() *block {
		return &block{LN1: r.norm(2), Attn: &attention{r.linear(2, 6), noBias}, MLP: feed{FC1: *r.linear(2, 8), FC2: *r.linear(8, 2)}}
	}
	cyclic := &node{W: p, Kids: []*node{{W: q}}, All: map[string]any{}}
	cyclic.Parent, cyclic.Any, cyclic.All["self"], cyclic.Kids[0].Parent = cyclic, cyclic, cyclic.All, cyclic
	ring := []any{p, nil}
	ring[1] = ring

	cases := []struct {
		name string
		m    any
		want []string
	}{
		{"nothing", nil, nil},
		{"a number", 3, nil},
		{"nil pointer", (*gpt)(nil), nil},
		{"parameter", p, []string{"new"}},
		{"layer", lin, []string{"weight", "bias"}},
		{"layer by value", *lin, []string{"weight", "bias"}},
		{"without bias", noBias, []string{"weight"}},
		{"sequential", nn.Sequential{lin, nn.ReLU{}, norm}, []string{"0.weight", "0.bias", "2.weight", "2.bias"}},
		{"nested structs, slices, tied", &gpt{WTE: tied, Blocks: []*block{blk(), nil, {LN1: norm}}, FinalNorm: r.norm(2), LMHead: &nn.Linear{Weight: tied.Weight, Bias: p}},
			[]string{"wte.weight",
				"blocks.0.ln1.weight", "blocks.0.ln1.bias", "blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.bias", "blocks.0.attn.proj.weight",
				"blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc1.bias", "blocks.0.mlp.fc2.weight", "blocks.0.mlp.fc2.bias",
				"blocks.2.ln1.weight", "blocks.2.ln1.bias", "final_norm.weight", "final_norm.bias", "lm_head.bias"}},
		{"shared layer", nn.Sequential{lin, lin, norm, lin}, []string{"0.weight", "0.bias", "2.weight", "2.bias"}},
		{"map", map[string]any{"b": p, "a": map[int]*autograd.Param{10: q, 9: nil, 2: r.param(1)}, "c": map[uint8]any{1: lin}},
			[]string{"a.2", "a.10", "b", "c.1.weight", "c.1.bias"}},
		{"map with other keys", map[float64]any{1: p}, nil},
		{"array of interfaces", [3]any{p, nil, [][]any{{q}}}, []string{"0", "2.0.0"}},
		{"pointer to pointer", &ring, []string{"0"}},
		{"numbers", struct {
			A []float32
			B map[string]int
			C [][]int
			D func()
			E chan int
		}{}, nil},
		{"tags", struct {
			A *autograd.Param `nn:"alpha"`
			B *autograd.Param `nn:"-"`
			C nn.Linear       `nn:"sub" json:"c"`
			d *autograd.Param
		}{p, q, *lin, q}, []string{"alpha", "sub.weight", "sub.bias"}},
		{"embedded", &Outer{inner{p}, q}, []string{"weight", "bias"}},
		{"embedded by pointer, interface and tag", struct {
			*nn.Linear
			nn.Module
			nn.Sequential `nn:"seq"`
		}{noBias, r.norm(1), nn.Sequential{norm}}, []string{"weight", "weight_2", "bias", "seq.0.weight", "seq.0.bias"}},
		{"embedded sequential", struct{ nn.Sequential }{nn.Sequential{norm}}, []string{"0.weight", "0.bias"}},
		{"embedded parameter", struct{ *autograd.Param }{p}, []string{"param"}},
		{"one name twice", struct{ QKV, Qkv, Qkv_2 *autograd.Param }{p, q, r.param(1)}, []string{"qkv", "qkv_2", "qkv_2_2"}},
		{"transparent", nn.Sequential{module(nil), lin}, []string{"1.weight", "1.bias"}},
		{"transparent pointer and value", []any{&wrap{lin}, wrap{wrap{norm}}, wrap{nil}, (*wrap)(nil)}, []string{"0.weight", "0.bias", "1.weight", "1.bias"}},
		{"transparent held by value", &struct{ B []slot }{[]slot{{lin}, {norm}}}, []string{"b.0.weight", "b.0.bias", "b.1.weight", "b.1.bias"}},
		{"transparent around a parameter", struct{ W wrap }{wrap{p}}, []string{"w"}},
		{"struct that embeds a transparent", &Adapter{p, &Wrap{lin}}, []string{"a", "weight", "bias"}},
		{"struct that embeds one out of reach", adapter{wrap{lin}, p}, []string{"a"}},
		{"embedded and out of reach, then in reach", struct {
			list
			L *nn.Linear
		}{list{lin}, lin}, []string{"l.weight", "l.bias"}},
		{"embedded pointer to a struct not exported", struct{ *inner }{&inner{p}}, []string{"weight"}},
		{"cycles", cyclic, []string{"w", "kids.0.w"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, names(c.m))
			require.Len(t, nn.AllParams(c.m), len(c.want))
		})
	}
}

func TestSnakeCase(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	p := func() *autograd.Param { return r.param(1) }
	m := struct {
		Weight, QKV, LN1, FC1, FinalNorm, WTE, LMHead, HTTPServer, Conv2D, Conv1Out, W, W1, W_Q, PosEmb2 *autograd.Param
		Größe, Änderung                                                                                  *autograd.Param
	}{p(), p(), p(), p(), p(), p(), p(), p(), p(), p(), p(), p(), p(), p(), p(), p()}
	require.Equal(t, []string{"weight", "qkv", "ln1", "fc1", "final_norm", "wte", "lm_head", "http_server", "conv2d",
		"conv1_out", "w", "w1", "w_q", "pos_emb2", "größe", "änderung"}, names(m))
}

// What Unwrap makes on the fly must not be collected while its address stands for it.
func TestWrappersMadeOnTheFly(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	var m []any
	for range 200 {
		m = append(m, fresh{r.param(1)})
	}
	m = append(m, collect{})
	for i := range 200 {
		m = append(m, fresh{r.param(i + 1)})
	}
	require.Len(t, nn.AllParams(m), 400)
}

type collect struct{}

func (collect) Unwrap() any { runtime.GC(); return nil }

// Two paths to each of 60 nodes are 2^60 paths in all.
func TestManyPathsTakeNoTime(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	last := &node{W: r.param(1)}
	for range 60 {
		last = &node{Kids: []*node{last, last}, Any: last}
	}
	require.Len(t, nn.AllParams(last), 1)
}

func TestWalkingNamesTheParameters(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	net := nn.Sequential{r.linear(2, 3)}
	m := struct{ Net nn.Sequential }{net}
	w := net[0].(*nn.Linear).Weight
	require.Equal(t, "weight", w.Name())
	nn.Params(net)
	require.Equal(t, "0.weight", w.Name())
	nn.Params(m)
	require.Equal(t, "net.0.weight", w.Name())
	nn.Params(net)
	nn.Params(net[0])
	require.Equal(t, "net.0.weight", w.Name(), "walking a part renames nothing")
	nn.Params(struct{ Encoder nn.Sequential }{net})
	require.Equal(t, "encoder.0.weight", w.Name(), "the last of equally long paths holds")
}

func TestParamsLeaveFrozenOnesOut(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	a, b := r.linear(2, 3), r.linear(3, 1, nn.LinearConfig{DType: tensor.Float64})
	m := nn.Sequential{a, b, a}
	require.EqualValues(t, 6+3+3+1, nn.NumParams(m))
	require.EqualValues(t, 4*9+8*4, nn.ParamBytes(m))
	nn.SetFrozen(a, true)
	require.Equal(t, []*autograd.Param{b.Weight, b.Bias}, nn.Params(m))
	require.Equal(t, []*autograd.Param{a.Weight, a.Bias, b.Weight, b.Bias}, nn.AllParams(m))
	require.EqualValues(t, 13, nn.NumParams(m))
	nn.SetFrozen(m, false)
	require.Len(t, nn.Params(m), 4)
	for range nn.NamedParams(m) {
		break
	}
}
