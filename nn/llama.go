package nn

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Llama is a decoder-only transformer with RMS norm, rotary positions, SwiGLU and grouped queries (Touvron et al., 2023).
// Its names are those of the published weights without the "model." in front.
type Llama struct {
	EmbedTokens *Embedding
	Layers      []*LlamaLayer
	Norm        *RMSNorm
	LMHead      *Linear // nil: the embedding's table

	Chain Chain   `nn:"-"` // nil: blocks run as they are
	Wrap  Wrapper `nn:"-"` // around each block; nil: none

	plainHead bool
}

// LlamaLayer is one block of a Llama.
type LlamaLayer struct {
	InputLayernorm         *RMSNorm
	SelfAttn               *LlamaAttention
	PostAttentionLayernorm *RMSNorm
	MLP                    *LlamaMLP
}

// LlamaAttention has separate layers for queries, keys and values, without biases.
type LlamaAttention struct {
	QProj, KProj, VProj, OProj *Linear
	heads, kvHeads             int
	base                       float64
}

// LlamaMLP is down(silu(gate(x)) * up(x)) (Shazeer, 2020).
type LlamaMLP struct{ GateProj, UpProj, DownProj *Linear }

// LlamaConfig of a Llama. The sizes are required.
type LlamaConfig struct {
	Vocab, Dim, Heads, Layers, Hidden int
	KVHeads                           int     // 0: Heads
	RoPEBase                          float64 // 0: 10000
	Eps                               float64 // of the norms; 0: 1e-6
	Tied                              bool    // the head shares the embedding's table
	DType                             tensor.DType
	PlainHead                         bool // Loss makes the logits of all tokens at once, as Forward does
}

// Llama7B is the model of 6,738,415,616 parameters.
var Llama7B = LlamaConfig{Vocab: 32000, Dim: 4096, Heads: 32, Layers: 32, Hidden: 11008}

// NewLlama makes a model whose weights start as N(0, 0.02).
func NewLlama(sess *autograd.Session, cfg LlamaConfig) (*Llama, error) {
	k := newMaker("NewLlama", sess)
	for _, n := range []struct {
		what string
		n    int
	}{{"vocab", cfg.Vocab}, {"dim", cfg.Dim}, {"heads", cfg.Heads}, {"layers", cfg.Layers}, {"hidden", cfg.Hidden}} {
		k.positive(n.what, n.n)
	}
	if cfg.KVHeads == 0 {
		cfg.KVHeads = cfg.Heads
	}
	k.positive("key-value heads", cfg.KVHeads)
	if cfg.RoPEBase == 0 {
		cfg.RoPEBase = 10000
	}
	if k.err == nil && (cfg.Dim%cfg.Heads != 0 || cfg.Heads%cfg.KVHeads != 0) {
		k.failf("dim %d, %d heads, %d key-value heads: want heads that divide dim, and key-value heads that divide heads", cfg.Dim, cfg.Heads, cfg.KVHeads)
	}
	k.rope(cfg.RoPEBase, cfg.Dim/max(1, cfg.Heads))
	if err := k.end(); err != nil {
		return nil, err
	}
	b := llamaBuilder{sess: sess, cfg: cfg}
	m := &Llama{EmbedTokens: b.embedding(), plainHead: cfg.PlainHead}
	for range cfg.Layers {
		m.Layers = append(m.Layers, b.layer())
	}
	m.Norm = b.norm()
	if !cfg.Tied {
		m.LMHead = b.linear(cfg.Dim, cfg.Vocab)
	}
	return built(m, b.err)
}

// llamaBuilder makes the pieces; after the first error it makes nothing.
type llamaBuilder struct {
	sess *autograd.Session
	cfg  LlamaConfig
	err  error
}

func (b *llamaBuilder) linear(in, out int) (l *Linear) {
	if b.err == nil {
		l, b.err = NewLinear(b.sess, in, out, LinearConfig{NoBias: true, DType: b.cfg.DType, InitWeight: Normal(0, 0.02)})
	}
	return l
}

func (b *llamaBuilder) norm() (n *RMSNorm) {
	if b.err == nil {
		n, b.err = NewRMSNorm(b.sess, b.cfg.Dim, RMSNormConfig{Eps: b.cfg.Eps, DType: b.cfg.DType})
	}
	return n
}

func (b *llamaBuilder) embedding() (e *Embedding) {
	if b.err == nil {
		e, b.err = NewEmbedding(b.sess, b.cfg.Vocab, b.cfg.Dim, EmbeddingConfig{DType: b.cfg.DType, InitWeight: Normal(0, 0.02)})
	}
	return e
}

func (b *llamaBuilder) layer() *LlamaLayer {
	c := b.cfg
	kv := c.Dim / c.Heads * c.KVHeads
	return &LlamaLayer{
		InputLayernorm: b.norm(),
		SelfAttn: &LlamaAttention{
			QProj: b.linear(c.Dim, c.Dim), KProj: b.linear(c.Dim, kv), VProj: b.linear(c.Dim, kv), OProj: b.linear(c.Dim, c.Dim),
			heads: c.Heads, kvHeads: c.KVHeads, base: c.RoPEBase,
		},
		PostAttentionLayernorm: b.norm(),
		MLP:                    &LlamaMLP{GateProj: b.linear(c.Dim, c.Hidden), UpProj: b.linear(c.Dim, c.Hidden), DownProj: b.linear(c.Hidden, c.Dim)},
	}
}

// Forward takes tokens [B T] and gives logits [B T vocab].
func (m *Llama) Forward(s *autograd.Scope, tokens *autograd.Value) *autograd.Value {
	return s.Do("llama", func(s *autograd.Scope) *autograd.Value { return logits(s, m.hidden(s, tokens), m.head()) })
}

// hidden gives what the head reads [B T C].
func (m *Llama) hidden(s *autograd.Scope, tokens *autograd.Value) *autograd.Value {
	x := m.EmbedTokens.Forward(s.Named("embed"), tokens)
	x = runBlocks(s, m.Chain, m.Wrap, x, m.Layers)
	return normed(s, "norm", m.Norm, x)
}

// head is the head's weight.
func (m *Llama) head() *autograd.Param {
	if m.LMHead != nil {
		return m.LMHead.Weight
	}
	return m.EmbedTokens.Weight
}

// NewCache makes a cache for batch sequences of up to max tokens; no context bounds it. The caller calls Close.
func (m *Llama) NewCache(batch, max int) (*KVCache, error) {
	a := m.Layers[0].SelfAttn
	return newCache(m.EmbedTokens.Weight, len(m.Layers), batch, max, a.kvHeads, a.OProj.Weight.Spec().Dim(1)/a.heads)
}

// Next gives the logits [B T vocab] for tokens [B T] that follow those in cache, where theirs are added: the same that
// Forward gives for the last T of all tokens so far. It runs under NoGrad and Eval and passes Wrap by. A step that fails and
// a dry run leave the cache as long as it was.
func (m *Llama) Next(s *autograd.Scope, tokens *autograd.Value, cache *KVCache) *autograd.Value {
	return cache.next(s, "llama", len(m.Layers), tokens, func(s *autograd.Scope, tokens *autograd.Value) *autograd.Value {
		x := m.EmbedTokens.Forward(s.Named("embed"), tokens)
		for i, l := range m.Layers {
			x = cache.run(s, i, x, l)
		}
		return logits(s, normed(s, "norm", m.Norm, x), m.head())
	})
}

// Loss is the mean cross-entropy of the logits for tokens [B T] against targets [B T]. Unless the config said PlainHead, it
// is ops.LinearCrossEntropy, which never holds the logits of all tokens: to read them, call Forward.
func (m *Llama) Loss(s *autograd.Scope, tokens, targets *autograd.Value) *autograd.Value {
	return lossOf(s, "llama", m.plainHead, func(s *autograd.Scope) *autograd.Value { return m.hidden(s, tokens) }, m.head(), targets)
}

// Forward takes x [B T C] and gives [B T C].
func (l *LlamaLayer) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return l.forward(s, x, nil, false)
}

// forward is Forward; tokens go on behind those in cache, if there is one, and mine says to free x when it has been used.
func (l *LlamaLayer) forward(s *autograd.Scope, x *autograd.Value, cache *layerCache, mine bool) *autograd.Value {
	y := s.Do("attention", func(s *autograd.Scope) *autograd.Value {
		h := l.InputLayernorm.Forward(s, x)
		if s.Modes().NoGrad {
			return l.SelfAttn.forward(s, h, cache, true, x)
		}
		return residual(s, l.SelfAttn.forward(s, h, cache, true, nil), x)
	})
	if mine {
		s.Free(x)
	}
	z := s.Do("mlp", func(s *autograd.Scope) *autograd.Value {
		h := l.PostAttentionLayernorm.Forward(s, y)
		if s.Modes().NoGrad {
			return l.MLP.forward(s, h, true, y)
		}
		return residual(s, l.MLP.forward(s, h, true, nil), y)
	})
	s.Free(y)
	return z
}

// Forward takes x [B T C] and gives [B T C].
func (a *LlamaAttention) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return a.forward(s, x, nil, false, nil)
}

// forward is Forward; tokens go on behind those in cache, if there is one, mine says to free x when it has been used, and r is
// added to what comes out, unless it is nil.
func (a *LlamaAttention) forward(s *autograd.Scope, x *autograd.Value, cache *layerCache, mine bool, r *autograd.Value) *autograd.Value {
	b, t, d := x.Dim(0), x.Dim(1), x.Dim(2)/a.heads
	part := func(s *autograd.Scope, l *Linear, heads int) *autograd.Value {
		return s.Do("", func(s *autograd.Scope) *autograd.Value { return ops.Reshape(s, l.Forward(s, x), b, t, heads, d) })
	}
	rotated := func(s *autograd.Scope, l *Linear, heads int) *autograd.Value {
		return s.Do("rope", func(s *autograd.Scope) *autograd.Value {
			return ops.RoPE(s, part(s, l, heads), ops.RoPEConfig{Base: a.base, Offset: cache.filled()})
		})
	}
	return s.Do("attn", func(s *autograd.Scope) *autograd.Value {
		y := s.Do("", func(s *autograd.Scope) *autograd.Value { // ends queries, keys and values
			q, k, v := rotated(s, a.QProj, a.heads), rotated(s, a.KProj, a.kvHeads), part(s, a.VProj, a.kvHeads)
			if mine {
				s.Free(x)
			}
			return cache.attend(s, q, k, v, ops.AttentionConfig{Causal: true})
		})
		return a.OProj.forwardAdd(s, y, r)
	})
}

// Forward takes x [... C] and gives [... C].
func (m *LlamaMLP) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return m.forward(s, x, false, nil)
}

// forward is Forward; mine says to free x when it has been used, and r is added to what comes out, unless it is nil.
func (m *LlamaMLP) forward(s *autograd.Scope, x *autograd.Value, mine bool, r *autograd.Value) *autograd.Value {
	return s.Do("ffn", func(s *autograd.Scope) *autograd.Value {
		return m.DownProj.forwardAdd(s, m.gated(s, x, mine), r)
	})
}

// gated is silu(gate(x)) * up(x). Under NoGrad what up gives is never made.
func (m *LlamaMLP) gated(s *autograd.Scope, x *autograd.Value, mine bool) (h *autograd.Value) {
	free := func() {
		if mine {
			s.Free(x)
		}
	}
	g := m.GateProj.Forward(s, x)
	if s.Modes().NoGrad {
		h = ops.LinearSwiGLU(s, x, value(m.UpProj.Weight), value(m.UpProj.Bias), g)
		free()
	} else {
		u := m.UpProj.Forward(s, x)
		free()
		h = ops.SwiGLU(s, g, u)
		s.Free(u)
	}
	s.Free(g)
	return h
}
