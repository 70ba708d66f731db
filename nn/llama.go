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

	Wrap Wrapper `nn:"-"`
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
	if cfg.RoPEBase == 0 {
		cfg.RoPEBase = 10000
	}
	if k.err == nil && (cfg.Dim%cfg.Heads != 0 || cfg.Heads%cfg.KVHeads != 0) {
		k.failf("dim %d, %d heads, %d key-value heads: want heads that divide dim, and key-value heads that divide heads", cfg.Dim, cfg.Heads, cfg.KVHeads)
	}
	if err := k.end(); err != nil {
		return nil, err
	}
	b := llamaBuilder{sess: sess, cfg: cfg}
	m := &Llama{EmbedTokens: b.embedding()}
	for range cfg.Layers {
		m.Layers = append(m.Layers, b.layer())
	}
	m.Norm = b.norm()
	if !cfg.Tied {
		m.LMHead = b.linear(cfg.Dim, cfg.Vocab)
	}
	if b.err != nil {
		return nil, b.err
	}
	return m, nil
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
	return s.Do("llama", func(s *autograd.Scope) *autograd.Value {
		x := m.EmbedTokens.Forward(s.Named("embed"), tokens)
		for i, l := range m.Layers {
			x = m.Wrap.run(s, i, x, l.Forward)
		}
		h := m.Norm.Forward(s.Named("norm"), x)
		s.Free(x)
		head := m.EmbedTokens.Weight
		if m.LMHead != nil {
			head = m.LMHead.Weight
		}
		y := ops.Linear(s.Named("head"), h, head.Value(), nil)
		s.Free(h)
		return y
	})
}

// Loss is the mean cross-entropy of the logits for tokens [B T] against targets [B T].
func (m *Llama) Loss(s *autograd.Scope, tokens, targets *autograd.Value) *autograd.Value {
	return s.Do("loss", func(s *autograd.Scope) *autograd.Value {
		return ops.CrossEntropy(s, m.Forward(s, tokens), targets)
	})
}

// Forward takes x [B T C] and gives [B T C].
func (l *LlamaLayer) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	y := s.Do("attention", func(s *autograd.Scope) *autograd.Value {
		h := l.InputLayernorm.Forward(s, x)
		return ops.AddInPlace(s, l.SelfAttn.Forward(s, h), x)
	})
	z := s.Do("mlp", func(s *autograd.Scope) *autograd.Value {
		h := l.PostAttentionLayernorm.Forward(s, y)
		return ops.AddInPlace(s, l.MLP.Forward(s, h), y)
	})
	s.Free(y)
	return z
}

// Forward takes x [B T C] and gives [B T C].
func (a *LlamaAttention) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return s.Do("attn", func(s *autograd.Scope) *autograd.Value {
		b, t, d := x.Dim(0), x.Dim(1), x.Dim(2)/a.heads
		part := func(l *Linear, heads int) *autograd.Value { return ops.Reshape(s, l.Forward(s, x), b, t, heads, d) }
		rotated := func(l *Linear, heads int) *autograd.Value {
			return s.Do("rope", func(s *autograd.Scope) *autograd.Value {
				return ops.RoPE(s, ops.Reshape(s, l.Forward(s, x), b, t, heads, d), ops.RoPEConfig{Base: a.base})
			})
		}
		q, k, v := rotated(a.QProj, a.heads), rotated(a.KProj, a.kvHeads), part(a.VProj, a.kvHeads)
		y := ops.Attention(s, q, k, v, ops.AttentionConfig{Causal: true})
		s.Free(q, k, v)
		return a.OProj.Forward(s, ops.Reshape(s, y, b, t, a.heads*d))
	})
}

// Forward takes x [... C] and gives [... C].
func (m *LlamaMLP) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return s.Do("ffn", func(s *autograd.Scope) *autograd.Value {
		g, u := m.GateProj.Forward(s, x), m.UpProj.Forward(s, x)
		h := ops.SwiGLU(s, g, u)
		s.Free(g, u)
		return m.DownProj.Forward(s, h)
	})
}
