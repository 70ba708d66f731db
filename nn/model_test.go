package nn_test

import (
	"math"
	"path"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// small is a model with its loss on fixed data.
type small struct {
	model   any
	logits  func(s *autograd.Scope) *autograd.Value
	targets *tensor.Tensor
	held    []*tensor.Tensor
}

func (m *small) close() {
	for _, t := range m.held {
		t.Release()
	}
}

func (m *small) loss(s *autograd.Scope) *autograd.Value {
	if l, ok := m.model.(interface {
		Loss(s *autograd.Scope, x, y *autograd.Value) *autograd.Value
	}); ok {
		return l.Loss(s, s.Input(m.held[0]), s.Input(m.targets))
	}
	return s.Do("loss", func(s *autograd.Scope) *autograd.Value {
		return ops.CrossEntropy(s, m.logits(s), s.Input(m.targets))
	})
}

func (m *small) train(s *autograd.Scope) error {
	m.loss(s).Backward(s)
	for _, p := range nn.AllParams(m.model) {
		p.ZeroGrad()
	}
	return nil
}

func (m *small) eval(s *autograd.Scope) error {
	m.logits(s.NoGrad().Eval())
	return nil
}

// builders make small models; dropout is on where there is some.
var builders = map[string]func(r *rig) (*small, error){
	"gpt":   func(r *rig) (*small, error) { return smallGPT(r, 0.1) },
	"llama": func(r *rig) (*small, error) { return smallLlama(r, 2, false) },
	"gqa":   func(r *rig) (*small, error) { return smallLlama(r, 1, true) },
	"vit":   smallViT,
	"conv":  smallConv,
}

func smallGPT(r *rig, dropout float64) (*small, error) {
	m, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 11, Context: 6, Dim: 8, Heads: 2, Layers: 2, Dropout: dropout})
	if err != nil {
		return nil, err
	}
	return tokens(r, m, m), nil
}

func smallLlama(r *rig, kv int, tied bool) (*small, error) {
	m, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: 11, Dim: 8, Heads: 2, Layers: 2, Hidden: 12, KVHeads: kv, Tied: tied})
	if err != nil {
		return nil, err
	}
	return tokens(r, m, m), nil
}

// tokens is a language model on two sequences of six tokens.
func tokens(r *rig, model any, m nn.Module) *small {
	x := floats(r, []int64{1, 2, 3, 4, 5, 6, 10, 0, 9, 1, 8, 2}, 2, 6)
	y := floats(r, []int64{2, 3, 4, 5, 6, 7, 0, 9, 1, 8, 2, 7}, 2, 6)
	logits := func(s *autograd.Scope) *autograd.Value { return m.Forward(s, s.Input(x)) }
	return &small{model: model, logits: logits, targets: y, held: []*tensor.Tensor{x, y}}
}

func smallViT(r *rig) (*small, error) {
	m, err := nn.NewViT(r.sess, nn.ViTConfig{Image: 8, Patch: 4, Dim: 8, Heads: 2, Layers: 2, Classes: 3, Dropout: 0.1})
	if err != nil {
		return nil, err
	}
	return images(r, m, m), nil
}

func images(r *rig, model any, m nn.Module) *small {
	x, y := r.uniform(tensor.Float32, 2, 3, 8, 8), floats(r, []int64{0, 2}, 2)
	logits := func(s *autograd.Scope) *autograd.Value { return m.Forward(s, s.Input(x)) }
	return &small{model: model, logits: logits, targets: y, held: []*tensor.Tensor{x, y}}
}

func smallConv(r *rig) (*small, error) {
	net := nn.Sequential{}
	var err error
	add := func(m nn.Module, e error) {
		net = append(net, m)
		if err == nil {
			err = e
		}
	}
	conv := func(in, out int) (nn.Module, error) {
		return nn.NewConv2D(r.sess, in, out, 3, nn.Conv2DConfig{Padding: 1})
	}
	add(conv(3, 4))
	add(nn.NewBatchNorm(r.sess, 4))
	net = append(net, nn.ReLU{}, nn.MaxPool2D{Size: 2})
	add(conv(4, 8))
	add(nn.NewGroupNorm(r.sess, 2, 8))
	net = append(net, nn.ReLU{}, nn.MaxPool2D{Size: 2}, nn.Flatten{}, nn.Dropout{P: 0.1})
	add(nn.NewLinear(r.sess, 8*2*2, 3))
	if err != nil {
		return nil, err
	}
	return images(r, net, net), nil
}

func eachModel(t *testing.T, f func(t *testing.T, r *rig, m *small)) {
	for name, build := range builders {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3)
			defer r.close()
			m, err := build(r)
			require.NoError(t, err)
			defer m.close()
			f(t, r, m)
		})
	}
}

// No model holds a value past its last use.
func TestModelsHaveNoSlack(t *testing.T) {
	eachModel(t, func(t *testing.T, r *rig, m *small) {
		noGrad := func(s *autograd.Scope) error { m.logits(s.NoGrad()); return nil }
		for name, f := range map[string]func(*autograd.Scope) error{"train": m.train, "eval": m.eval, "no grad": noGrad} {
			plan, err := r.sess.Plan(f, autograd.PlanConfig{})
			require.NoError(t, err)
			require.Empty(t, plan.Slack, name)
		}
	})
}

// What a dry run says is what happens (law M3).
func TestModelsDryRunEqualsRealRun(t *testing.T) {
	eachModel(t, func(t *testing.T, r *rig, m *small) {
		nn.Params(m.model) // events carry the names that the walk gives
		for _, f := range []func(*autograd.Scope) error{m.train, m.eval} {
			plan, err := r.sess.Plan(f, autograd.PlanConfig{Steps: 1, Events: true})
			require.NoError(t, err)
			var events []memory.Event
			r.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
			r.dev.ResetPeak()
			require.NoError(t, r.sess.Step(t.Context(), f))
			r.dev.SetTrace(nil)
			require.Equal(t, plan.Steps[0].Events, events)
			require.Equal(t, plan.Steps[0].Peak, r.dev.Stats().Peak)
			require.Equal(t, plan.Steps[0].Hash, r.dev.Stats().Hash)
		}
	})
}

// Whichever allocation of a step fails, nothing is left (law M2), and running statistics are as before.
func TestModelsFailAtEveryAllocation(t *testing.T) {
	eachModel(t, func(t *testing.T, r *rig, m *small) {
		sd, err := nn.StateDict(m.model).Clone()
		require.NoError(t, err)
		defer sd.Release()
		live := r.dev.Stats().Live
		for k := int64(1); ; k++ {
			r.dev.FailAt(k)
			err := r.sess.Step(t.Context(), m.train)
			r.dev.FailAt(0)
			require.Equal(t, live, r.dev.Stats().Live, "allocation %d", k)
			if err == nil {
				require.Greater(t, k, int64(20))
				return
			}
			var oom *memory.OOMError
			require.ErrorAs(t, err, &oom)
			for i, e := range nn.StateDict(m.model) {
				require.True(t, tensor.Equal(sd[i].Tensor, e.Tensor), "allocation %d: %s", k, e.Name)
			}
		}
	})
}

// A constructor that fails at any allocation leaves nothing.
func TestModelsFailWhileBuilding(t *testing.T) {
	models := map[string]func(r *rig) (any, error){
		"gpt": func(r *rig) (any, error) {
			return nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 3, Context: 2, Dim: 4, Heads: 2, Layers: 1})
		},
		"llama": func(r *rig) (any, error) {
			return nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: 3, Dim: 4, Heads: 2, Layers: 1, Hidden: 2})
		},
		"vit": func(r *rig) (any, error) {
			return nn.NewViT(r.sess, nn.ViTConfig{Image: 4, Patch: 2, Dim: 4, Heads: 2, Layers: 1, Classes: 2})
		},
		"batchnorm": func(r *rig) (any, error) { return nn.NewBatchNorm(r.sess, 3) },
		"groupnorm": func(r *rig) (any, error) { return nn.NewGroupNorm(r.sess, 1, 3) },
		"conv":      func(r *rig) (any, error) { return nn.NewConv2D(r.sess, 1, 2, 3) },
	}
	for name, build := range models {
		t.Run(name, func(t *testing.T) {
			for k := int64(1); ; k++ {
				r := newRig(t, 1)
				r.dev.FailAt(k)
				m, err := build(r)
				if err == nil {
					require.Greater(t, k, int64(2))
					r.close()
					return
				}
				require.Nil(t, m)
				require.Zero(t, r.dev.Stats().Live, "after %v", err)
				r.close()
			}
		})
	}
}

func TestModelNames(t *testing.T) {
	want := map[string][]string{
		"gpt": {"wte.weight", "wpe.weight",
			"blocks.0.ln1.weight", "blocks.0.ln1.bias", "blocks.0.qkv.weight", "blocks.0.qkv.bias", "blocks.0.proj.weight", "blocks.0.proj.bias",
			"blocks.0.ln2.weight", "blocks.0.ln2.bias", "blocks.0.fc.weight", "blocks.0.fc.bias", "blocks.0.out.weight", "blocks.0.out.bias",
			"blocks.1.ln1.weight", "blocks.1.ln1.bias", "blocks.1.qkv.weight", "blocks.1.qkv.bias", "blocks.1.proj.weight", "blocks.1.proj.bias",
			"blocks.1.ln2.weight", "blocks.1.ln2.bias", "blocks.1.fc.weight", "blocks.1.fc.bias", "blocks.1.out.weight", "blocks.1.out.bias",
			"ln_f.weight", "ln_f.bias"},
		"llama": append(append([]string{"embed_tokens.weight"}, llamaNames...), "norm.weight", "lm_head.weight"),
		"gqa":   append(append([]string{"embed_tokens.weight"}, llamaNames...), "norm.weight"),
		"vit": {"cls", "pos", "patch.weight", "patch.bias",
			"blocks.0.ln1.weight", "blocks.0.ln1.bias", "blocks.0.qkv.weight", "blocks.0.qkv.bias", "blocks.0.proj.weight", "blocks.0.proj.bias",
			"blocks.0.ln2.weight", "blocks.0.ln2.bias", "blocks.0.fc.weight", "blocks.0.fc.bias", "blocks.0.out.weight", "blocks.0.out.bias",
			"blocks.1.ln1.weight", "blocks.1.ln1.bias", "blocks.1.qkv.weight", "blocks.1.qkv.bias", "blocks.1.proj.weight", "blocks.1.proj.bias",
			"blocks.1.ln2.weight", "blocks.1.ln2.bias", "blocks.1.fc.weight", "blocks.1.fc.bias", "blocks.1.out.weight", "blocks.1.out.bias",
			"ln_f.weight", "ln_f.bias", "head.weight", "head.bias"},
		"conv": {"0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias", "5.weight", "5.bias", "10.weight", "10.bias"},
	}
	eachModel(t, func(t *testing.T, r *rig, m *small) {
		name := path.Base(t.Name())
		require.Equal(t, want[name], names(m.model))
	})
}

var llamaNames = func() (list []string) {
	for i := range 2 {
		for _, n := range []string{"input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
			"post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
			list = append(list, "layers."+strconv.Itoa(i)+"."+n+".weight")
		}
	}
	return list
}()

// The published counts, on a device without bytes.
func TestParameterCounts(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{Virtual: true})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(t, err)
	r := &rig{t, dev, sess}
	defer r.close()
	gpt, err := nn.NewGPT(sess, nn.GPTConfig{Vocab: 50257, Context: 1024, Dim: 768, Heads: 12, Layers: 12})
	require.NoError(t, err)
	require.EqualValues(t, 124_439_808, nn.NumParams(gpt))
	llama, err := nn.NewLlama(sess, nn.Llama7B)
	require.NoError(t, err)
	require.EqualValues(t, 6_738_415_616, nn.NumParams(llama))
	vit, err := nn.NewViT(sess, nn.ViTConfig{Image: 224, Patch: 16, Dim: 1024, Heads: 16, Layers: 24, Classes: 10})
	require.NoError(t, err)
	require.EqualValues(t, 303_311_882, nn.NumParams(vit))
	require.EqualValues(t, dev.Stats().Live, nn.ParamBytes([]any{gpt, llama, vit}))
}

func TestModelConstructorsRefuse(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	fail := func(m any, err error) error { require.Nil(t, m); return err }
	gpt := func(f func(*nn.GPTConfig)) error {
		c := nn.GPTConfig{Vocab: 3, Context: 4, Dim: 4, Heads: 2, Layers: 1}
		f(&c)
		return fail(nn.NewGPT(r.sess, c))
	}
	llama := func(f func(*nn.LlamaConfig)) error {
		c := nn.LlamaConfig{Vocab: 3, Dim: 4, Heads: 2, Layers: 1, Hidden: 5}
		f(&c)
		return fail(nn.NewLlama(r.sess, c))
	}
	vit := func(f func(*nn.ViTConfig)) error {
		c := nn.ViTConfig{Image: 4, Patch: 2, Dim: 4, Heads: 2, Layers: 1, Classes: 2}
		f(&c)
		return fail(nn.NewViT(r.sess, c))
	}
	mha := func(dim, heads int, c nn.AttentionConfig) error {
		return fail(nn.NewMultiHeadAttention(r.sess, dim, heads, c))
	}
	conv := func(in, out, kernel int, c nn.Conv2DConfig) error {
		return fail(nn.NewConv2D(r.sess, in, out, kernel, c))
	}
	cases := []struct {
		err  error
		want string
	}{
		{gpt(func(c *nn.GPTConfig) { c.Vocab = 0 }), "nn: NewGPT: vocab 0: want 1 or more"},
		{gpt(func(c *nn.GPTConfig) { c.Context = -1 }), "nn: NewGPT: context -1: want 1 or more"},
		{gpt(func(c *nn.GPTConfig) { c.Layers = 0 }), "nn: NewGPT: layers 0: want 1 or more"},
		{gpt(func(c *nn.GPTConfig) { c.Dropout = 2 }), "nn: NewGPT: dropout 2: want 0 to 1"},
		{gpt(func(c *nn.GPTConfig) { c.Dim = 0 }), "nn: NewEmbedding: dim 0: want 1 or more"},
		{gpt(func(c *nn.GPTConfig) { c.Heads = 3 }), "nn: NewMultiHeadAttention: dim 4, 3 heads, 3 key-value heads: want heads that divide dim"},
		{gpt(func(c *nn.GPTConfig) { c.DType = tensor.Int32 }), "nn: NewEmbedding: dtype int32: want float32, float64, float16 or bfloat16"},
		{fail(nn.NewGPT(nil, nn.GPTConfig{})), "nn: NewGPT: the session is nil: want one from autograd.New"},
		{llama(func(c *nn.LlamaConfig) { c.Vocab = 0 }), "nn: NewLlama: vocab 0: want 1 or more"},
		{llama(func(c *nn.LlamaConfig) { c.Hidden = 0 }), "nn: NewLlama: hidden 0: want 1 or more"},
		{llama(func(c *nn.LlamaConfig) { c.KVHeads = -1 }), "nn: NewLlama: key-value heads -1: want 1 or more"},
		{llama(func(c *nn.LlamaConfig) { c.KVHeads = 3 }), "nn: NewLlama: dim 4, 2 heads, 3 key-value heads: want heads that divide dim"},
		{llama(func(c *nn.LlamaConfig) { c.Heads = 4 }), "nn: NewLlama: 1 channels a head: want an even number for rotary positions"},
		{llama(func(c *nn.LlamaConfig) { c.RoPEBase = -1 }), "nn: NewLlama: rotary base -1: want a positive number"},
		{llama(func(c *nn.LlamaConfig) { c.Eps = math.NaN() }), "nn: NewRMSNorm: eps NaN: want a positive number"},
		{vit(func(c *nn.ViTConfig) { c.Patch = 3 }), "nn: NewViT: image 4, patch 3: want patches that divide the image"},
		{vit(func(c *nn.ViTConfig) { c.Patch = 0 }), "nn: NewViT: patch 0: want 1 or more"},
		{vit(func(c *nn.ViTConfig) { c.Classes = 0 }), "nn: NewViT: classes 0: want 1 or more"},
		{vit(func(c *nn.ViTConfig) { c.Channels = -1 }), "nn: NewConv2D: in channels -1: want 1 or more"},
		{vit(func(c *nn.ViTConfig) { c.Hidden = -1 }), "nn: NewLinear: out features -1: want 1 or more"},
		{mha(4, 0, nn.AttentionConfig{}), "nn: NewMultiHeadAttention: heads 0: want 1 or more"},
		{mha(4, 4, nn.AttentionConfig{KVHeads: 3}), "nn: NewMultiHeadAttention: dim 4, 4 heads, 3 key-value heads: want heads that divide dim, and key-value heads that divide heads"},
		{mha(4, 4, nn.AttentionConfig{RoPEBase: 10}), "nn: NewMultiHeadAttention: 1 channels a head: want an even number for rotary positions"},
		{mha(4, 2, nn.AttentionConfig{Dropout: math.NaN()}), "nn: NewMultiHeadAttention: dropout NaN: want 0 to 1"},
		{conv(0, 1, 1, nn.Conv2DConfig{}), "nn: NewConv2D: in channels 0: want 1 or more"},
		{conv(1, 1, 0, nn.Conv2DConfig{}), "nn: NewConv2D: kernel 0: want 1 or more"},
		{conv(1, 1, 1, nn.Conv2DConfig{Stride: -1}), "nn: NewConv2D: stride -1: want 1 or more"},
		{conv(1, 1, 1, nn.Conv2DConfig{Padding: -1}), "nn: NewConv2D: padding -1: want 0 or more"},
		{conv(4, 3, 1, nn.Conv2DConfig{Groups: 2}), "nn: NewConv2D: 2 groups of 4 and 3 channels: want groups that divide both"},
		{fail(nn.NewBatchNorm(r.sess, 0)), "nn: NewBatchNorm: channels 0: want 1 or more"},
		{fail(nn.NewBatchNorm(r.sess, 1, nn.BatchNormConfig{Momentum: 2})), "nn: NewBatchNorm: momentum 2: want 0 to 1"},
		{fail(nn.NewBatchNorm(r.sess, 1, nn.BatchNormConfig{Eps: -1})), "nn: NewBatchNorm: eps -1: want a positive number, or 0 for 1e-5"},
		{fail(nn.NewGroupNorm(r.sess, 2, 3)), "nn: NewGroupNorm: 2 groups of 3 channels: want groups that divide them"},
		{fail(nn.NewGroupNorm(r.sess, 1, 3, nn.GroupNormConfig{Eps: -1})), "nn: NewGroupNorm: eps -1: want a positive number, or 0 for 1e-5"},
		{fail(nn.NewRMSNorm(r.sess, 0)), "nn: NewRMSNorm: features 0: want 1 or more"},
	}
	for _, c := range cases {
		require.ErrorContains(t, c.err, c.want)
		require.Zero(t, r.dev.Stats().Live, "after %v", c.err)
	}
}

func TestModelErrorsNameScopes(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	gpt, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 11, Context: 4, Dim: 8, Heads: 2, Layers: 2})
	require.NoError(t, err)
	gpt.Blocks[1].FC = r.linear(3, 32)
	llama, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: 11, Dim: 8, Heads: 2, Layers: 2, Hidden: 12})
	require.NoError(t, err)
	llama.Layers[1].SelfAttn.OProj = r.linear(3, 8)
	x := floats(r, []int64{1, 2, 3, 4, 5}, 1, 5)
	defer x.Release()
	short := floats(r, []int64{1, 2}, 1, 2)
	defer short.Release()
	run := func(m nn.Module, x *tensor.Tensor) error {
		return r.step(func(s *autograd.Scope) { m.Forward(s, s.Input(x)) })
	}
	require.ErrorContains(t, run(gpt, x), "autograd: gpt/embed: slice")
	require.ErrorContains(t, run(gpt, short), "autograd: gpt/blocks.1/mlp/1: linear[float32[1 2 8]")
	require.ErrorContains(t, run(llama, short), "autograd: llama/blocks.1/attention/attn: linear[float32[1 2 8]")
}

// Dropout is for training, and a session's stream decides about it.
func TestModelModes(t *testing.T) {
	eachModel(t, func(t *testing.T, r *rig, m *small) {
		name := path.Base(t.Name())
		logits := func(mode func(*autograd.Scope) *autograd.Scope) (y []float64) {
			r.ok(func(s *autograd.Scope) { y = values(t, m.logits(mode(s)).Tensor()) })
			return y
		}
		same := func(s *autograd.Scope) *autograd.Scope { return s }
		if name == "llama" || name == "gqa" {
			require.Equal(t, logits(same), logits(same))
		} else {
			require.NotEqual(t, logits(same), logits(same))
		}
		want := logits((*autograd.Scope).Eval)
		rand := r.sess.Rand()
		require.Equal(t, want, logits((*autograd.Scope).Eval))
		require.Equal(t, want, logits(func(s *autograd.Scope) *autograd.Scope { return s.Eval().NoGrad() }))
		require.Equal(t, rand, r.sess.Rand())
	})
}

// A module leaves its input to its caller, whichever way a model runs it.
func TestPartsOfModelsKeepTheirInput(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	gpt, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 3, Context: 6, Dim: 8, Heads: 2, Layers: 1})
	require.NoError(t, err)
	llama, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: 3, Dim: 8, Heads: 2, Layers: 1, Hidden: 12, KVHeads: 1})
	require.NoError(t, err)
	bn, err := nn.NewBatchNorm(r.sess, 6)
	require.NoError(t, err)
	x := r.uniform(tensor.Float32, 2, 6, 8)
	defer x.Release()
	l := llama.Layers[0]
	for _, m := range []nn.Module{gpt.Blocks[0], gpt.Blocks[0].MultiHeadAttention, l, l.SelfAttn, l.MLP, bn} {
		r.ok(func(s *autograd.Scope) {
			for _, s := range []*autograd.Scope{s, s.NoGrad(), s.Eval()} {
				v := ops.MulScalar(s, s.Input(x), 2)
				y := m.Forward(s, v)
				require.Equal(t, v.Shape(), y.Shape())
				require.InDelta(t, 2*x.At(1, 2, 3), v.Tensor().At(1, 2, 3), 1e-6, "%T", m)
			}
		})
	}
}

func TestAttentionShapes(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	x := r.uniform(tensor.Float64, 2, 5, 12)
	defer x.Release()
	for _, c := range []nn.AttentionConfig{
		{}, {KVHeads: 2}, {KVHeads: 1, Causal: true}, {RoPEBase: 100}, {KVHeads: 2, RoPEBase: 1e4, Causal: true, NoBias: true},
	} {
		c.DType = tensor.Float64
		m, err := nn.NewMultiHeadAttention(r.sess, 12, 6, c)
		require.NoError(t, err)
		kv := c.KVHeads
		if kv == 0 {
			kv = 6
		}
		require.Equal(t, []int{(6 + 2*kv) * 2, 12}, m.QKV.Weight.Spec().Shape)
		require.Equal(t, c.NoBias, m.QKV.Bias == nil)
		shape, y := r.forward(m, x)
		require.Equal(t, []int{2, 5, 12}, shape)
		r.ok(func(s *autograd.Scope) { // the first three tokens see the others only without Causal
			v := values(t, m.Forward(s, ops.Slice(s, s.Input(x), 1, 0, 3)).Tensor())
			if c.Causal {
				require.InDeltaSlice(t, y[:36], v[:36], 1e-12)
			} else {
				require.Greater(t, math.Abs(y[0]-v[0]), 1e-6)
			}
		})
	}
}

// A wrapper that only runs the block changes neither bits nor names nor bytes.
func TestIdentityWrapper(t *testing.T) {
	eachModel(t, func(t *testing.T, r *rig, m *small) {
		var seen []int
		var wrap nn.Wrapper = func(s *autograd.Scope, i int, x *autograd.Value, block nn.Forward) *autograd.Value {
			require.Contains(t, s.Path(), "blocks."+strconv.Itoa(i))
			seen = append(seen, i)
			return block(s, x)
		}
		run := func() (y []float64, hash uint64) {
			r.dev.ResetPeak()
			r.ok(func(s *autograd.Scope) { y = values(t, m.logits(s.Eval()).Tensor()) })
			return y, r.dev.Stats().Hash
		}
		before := names(m.model)
		want, hash := run()
		switch model := m.model.(type) {
		case *nn.GPT:
			model.Wrap = wrap
		case *nn.Llama:
			model.Wrap = wrap
		case *nn.ViT:
			model.Wrap = wrap
		default:
			return
		}
		got, gotHash := run()
		require.Equal(t, []int{0, 1}, seen)
		require.Equal(t, want, got)
		require.Equal(t, hash, gotHash)
		require.Equal(t, before, names(m.model))
	})
}
