package nn

import (
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Block is a pre-norm transformer block: x += attention(norm(x)); x += fc2(gelu(fc1(norm(x)))) (Xiong et al., 2020).
type Block struct {
	LN1 *LayerNorm
	*MultiHeadAttention
	LN2     *LayerNorm
	FC, Out *Linear // C -> 4C -> C
	Dropout Dropout // of both branches
}

// BlockConfig of a Block.
type BlockConfig struct {
	Attention AttentionConfig
	Dropout   float64
	Hidden    int // width of the inner layer; 0: 4 dim
}

// NewBlock makes a block of dim channels with that many heads.
func NewBlock(sess *autograd.Session, dim, heads int, cfg BlockConfig) (*Block, error) {
	k := newMaker("NewBlock", sess)
	k.probability("dropout", cfg.Dropout)
	if cfg.Hidden == 0 {
		cfg.Hidden = 4 * dim
	}
	if err := k.end(); err != nil {
		return nil, err
	}
	a := cfg.Attention
	bias := zeroIf(a.InitWeight)
	b := &Block{Dropout: Dropout{P: cfg.Dropout, InPlace: true}}
	var err error
	build := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	build(func() (err error) { b.LN1, err = NewLayerNorm(sess, dim, LayerNormConfig{DType: a.DType}); return })
	build(func() (err error) { b.MultiHeadAttention, err = NewMultiHeadAttention(sess, dim, heads, a); return })
	build(func() (err error) { b.LN2, err = NewLayerNorm(sess, dim, LayerNormConfig{DType: a.DType}); return })
	build(func() (err error) {
		b.FC, err = NewLinear(sess, dim, cfg.Hidden, LinearConfig{DType: a.DType, InitWeight: a.InitWeight, InitBias: bias})
		return
	})
	build(func() (err error) {
		b.Out, err = NewLinear(sess, cfg.Hidden, dim, LinearConfig{DType: a.DType, InitWeight: a.InitProj.or(a.InitWeight), InitBias: bias})
		return
	})
	return built(b, err)
}

// Forward takes x [B T C] and gives [B T C].
func (b *Block) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return b.forward(s, x, nil, false)
}

// forward is Forward; tokens go on behind those in cache, if there is one, and mine says to free x when it has been used.
func (b *Block) forward(s *autograd.Scope, x *autograd.Value, cache *layerCache, mine bool) *autograd.Value {
	sums := b.sums(s)
	y := s.Do("attention", func(s *autograd.Scope) *autograd.Value {
		h := b.LN1.Forward(s, x)
		if sums {
			return b.MultiHeadAttention.forward(s, h, cache, true, x)
		}
		return b.add(s, b.MultiHeadAttention.forward(s, h, cache, true, nil), x)
	})
	if mine {
		s.Free(x)
	}
	z := s.Do("mlp", func(s *autograd.Scope) *autograd.Value {
		mlp := Sequential{b.LN2, b.FC, GELU{Tanh: true}, b.Out}
		if sums {
			h := mlp[:3].Forward(s, y)
			return s.Do("3", func(s *autograd.Scope) *autograd.Value { return b.Out.forwardAdd(s, h, y) })
		}
		return b.add(s, mlp.Forward(s, y), y)
	})
	s.Free(y)
	return z
}

// sums tells whether the layers that write to the residual stream add it to what they give: nothing comes in between, and no
// gradient is recorded, in whose history the addition is an op of its own.
func (b *Block) sums(s *autograd.Scope) bool {
	return s.Modes().NoGrad && (b.Dropout.P == 0 || !s.Training())
}

// add is dropout(h) + x, written over h, which nothing has saved.
func (b *Block) add(s *autograd.Scope, h, x *autograd.Value) *autograd.Value {
	d := b.Dropout.Forward(s, h)
	if d != h {
		s.Free(h)
	}
	return residual(s, d, x)
}

// residual is h + x, written over h, which nothing has saved. Under autocast h may be of a half type and x in float32: then
// the sum is a new value in float32, as the sums along the residual stream are torch's.
func residual(s *autograd.Scope, h, x *autograd.Value) *autograd.Value {
	if h.DType() == x.DType() {
		return ops.AddInPlace(s, h, x)
	}
	y := ops.Add(s, h, x)
	s.Free(h)
	return y
}

// GPT is a decoder-only transformer with learned positions and a head that shares the embedding's table (Radford et al.,
// 2019). Names are "wte.weight", "blocks.0.ln1.weight", "blocks.0.qkv.weight", "blocks.0.proj.weight", "blocks.0.fc.weight",
// "blocks.0.out.weight", "ln_f.weight".
type GPT struct {
	WTE    *Embedding // tokens, and the head
	WPE    *Embedding // positions
	Drop   Dropout
	Blocks []*Block
	LNF    *LayerNorm `nn:"ln_f"`

	Chain Chain   `nn:"-"` // nil: blocks run as they are
	Wrap  Wrapper `nn:"-"` // around each block; nil: none

	plainHead bool
}

// GPTConfig of a GPT. Vocab, Context, Dim, Heads and Layers are required.
type GPTConfig struct {
	Vocab, Context, Dim, Heads, Layers int
	Dropout                            float64
	DType                              tensor.DType
	PlainHead                          bool // Loss makes the logits of all tokens at once, as Forward does
}

// NewGPT makes a model with GPT-2's initial values: N(0, 0.02), those of the layers that write to the residual stream
// divided by sqrt(2 Layers), biases 0.
func NewGPT(sess *autograd.Session, cfg GPTConfig) (*GPT, error) {
	k := newMaker("NewGPT", sess)
	k.positive("vocab", cfg.Vocab)
	k.positive("context", cfg.Context)
	k.positive("layers", cfg.Layers)
	k.probability("dropout", cfg.Dropout)
	if err := k.end(); err != nil {
		return nil, err
	}
	m := &GPT{Drop: Dropout{P: cfg.Dropout, InPlace: true}, plainHead: cfg.PlainHead}
	var err error
	if m.WTE, err = NewEmbedding(sess, cfg.Vocab, cfg.Dim, EmbeddingConfig{DType: cfg.DType, InitWeight: Normal(0, 0.02)}); err != nil {
		return built(m, err)
	}
	if m.WPE, err = NewEmbedding(sess, cfg.Context, cfg.Dim, EmbeddingConfig{DType: cfg.DType, InitWeight: Normal(0, 0.02)}); err != nil {
		return built(m, err)
	}
	attention := AttentionConfig{Causal: true, Dropout: cfg.Dropout, DType: cfg.DType,
		InitWeight: Normal(0, 0.02), InitProj: Normal(0, 0.02/math.Sqrt(2*float64(cfg.Layers)))}
	for range cfg.Layers {
		b, err := NewBlock(sess, cfg.Dim, cfg.Heads, BlockConfig{Attention: attention, Dropout: cfg.Dropout})
		if err != nil {
			return built(m, err)
		}
		m.Blocks = append(m.Blocks, b)
	}
	m.LNF, err = NewLayerNorm(sess, cfg.Dim, LayerNormConfig{DType: cfg.DType})
	return built(m, err)
}

// Forward takes tokens [B T] and gives logits [B T vocab].
func (m *GPT) Forward(s *autograd.Scope, tokens *autograd.Value) *autograd.Value {
	return s.Do("gpt", func(s *autograd.Scope) *autograd.Value { return logits(s, m.hidden(s, tokens), m.WTE.Weight) })
}

// hidden gives what the head reads [B T C].
func (m *GPT) hidden(s *autograd.Scope, tokens *autograd.Value) *autograd.Value {
	x := m.embed(s, tokens, 0)
	x = runBlocks(s, m.Chain, m.Wrap, x, m.Blocks)
	return normed(s, "ln_f", m.LNF, x)
}

// embed is dropout(wte[tokens] + wpe[pos:pos+T]).
func (m *GPT) embed(s *autograd.Scope, tokens *autograd.Value, pos int) *autograd.Value {
	return s.Do("embed", func(s *autograd.Scope) *autograd.Value {
		x := m.WTE.Forward(s, tokens)
		p := ops.Slice(s, m.WPE.Weight.Value(), 0, pos, pos+tokens.Dim(1))
		return m.Drop.Forward(s, ops.AddInPlace(s, x, p))
	})
}

// NewCache makes a cache for batch sequences of up to max tokens, at most the model's context. The caller calls Close.
func (m *GPT) NewCache(batch, max int) (*KVCache, error) {
	if n := m.WPE.Weight.Spec().Dim(0); max > n {
		return nil, fmt.Errorf("nn: NewCache: the context is full: %d positions: the model has %d", max, n)
	}
	a := m.Blocks[0].MultiHeadAttention
	return newCache(m.WTE.Weight, len(m.Blocks), batch, max, a.KVHeads, a.Proj.Weight.Spec().Dim(1)/a.Heads)
}

// Next gives the logits [B T vocab] for tokens [B T] that follow those in cache, where theirs are added: the same that
// Forward gives for the last T of all tokens so far. It runs under NoGrad and Eval and passes Wrap by. A step that fails and
// a dry run leave the cache as long as it was.
func (m *GPT) Next(s *autograd.Scope, tokens *autograd.Value, cache *KVCache) *autograd.Value {
	return cache.next(s, "gpt", len(m.Blocks), tokens, func(s *autograd.Scope, tokens *autograd.Value) *autograd.Value {
		x := m.embed(s, tokens, cache.n)
		for i, b := range m.Blocks {
			x = cache.run(s, i, x, b)
		}
		return logits(s, normed(s, "ln_f", m.LNF, x), m.WTE.Weight)
	})
}

// Loss is the mean cross-entropy of the logits for tokens [B T] against targets [B T]. Unless the config said PlainHead, it
// is ops.LinearCrossEntropy, which never holds the logits of all tokens: to read them, call Forward.
func (m *GPT) Loss(s *autograd.Scope, tokens, targets *autograd.Value) *autograd.Value {
	return lossOf(s, "gpt", m.plainHead, func(s *autograd.Scope) *autograd.Value { return m.hidden(s, tokens) }, m.WTE.Weight, targets)
}
