package nn

import (
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Shapes: B batch, T time, C channels, H heads, G key-value heads, D channels a head.

// MultiHeadAttention is self-attention with one linear layer for queries, keys and values, in that order (Vaswani et al.,
// 2017; grouped queries: Ainslie et al., 2023). The three are views of one buffer, and so are their gradients.
type MultiHeadAttention struct {
	QKV  *Linear // C -> (H + 2 G) D
	Proj *Linear // H D -> C

	Heads, KVHeads int
	Causal         bool
	Drop           float64 // of the attention's probabilities
	RoPEBase       float64 // rotary positions of that base; 0: none
}

// AttentionConfig of a MultiHeadAttention.
type AttentionConfig struct {
	KVHeads  int     // 0: as many as heads
	Causal   bool    // a token sees those before it and itself
	Dropout  float64 // of the probabilities, in training; 0: none
	RoPEBase float64 // rotary positions (Su et al., 2021); 0: none, Llama has 10000
	NoBias   bool
	DType    tensor.DType
	// How the weights start; nil: as Linear's. InitProj is for the layer that writes to the residual stream.
	InitWeight, InitProj Init
}

// NewMultiHeadAttention makes a layer of dim channels and that many heads, which must divide dim.
func NewMultiHeadAttention(sess *autograd.Session, dim, heads int, cfg AttentionConfig) (*MultiHeadAttention, error) {
	k := newMaker("NewMultiHeadAttention", sess)
	k.positive("dim", dim)
	k.positive("heads", heads)
	if cfg.KVHeads == 0 {
		cfg.KVHeads = heads
	}
	k.positive("key-value heads", cfg.KVHeads)
	k.probability("dropout", cfg.Dropout)
	if k.err == nil && (dim%heads != 0 || heads%cfg.KVHeads != 0) {
		k.failf("dim %d, %d heads, %d key-value heads: want heads that divide dim, and key-value heads that divide heads", dim, heads, cfg.KVHeads)
	}
	k.rope(cfg.RoPEBase, dim/max(1, heads))
	if err := k.end(); err != nil {
		return nil, err
	}
	d := dim / heads
	m := &MultiHeadAttention{Heads: heads, KVHeads: cfg.KVHeads, Causal: cfg.Causal, Drop: cfg.Dropout, RoPEBase: cfg.RoPEBase}
	var err error
	if m.QKV, err = NewLinear(sess, dim, (heads+2*cfg.KVHeads)*d, LinearConfig{NoBias: cfg.NoBias, DType: cfg.DType, InitWeight: cfg.InitWeight, InitBias: zeroIf(cfg.InitWeight)}); err != nil {
		return built(m, err)
	}
	m.Proj, err = NewLinear(sess, dim, dim, LinearConfig{NoBias: cfg.NoBias, DType: cfg.DType, InitWeight: cfg.InitProj.or(cfg.InitWeight), InitBias: zeroIf(cfg.InitWeight)})
	return built(m, err)
}

// rope asks for what rotary positions need; base 0: none.
func (k *maker) rope(base float64, dim int) {
	switch {
	case base == 0:
	case !(base > 0) || math.IsInf(base, 0):
		k.failf("rotary base %v: want a positive number", base)
	case dim%2 != 0:
		k.failf("%d channels a head: want an even number for rotary positions", dim)
	}
}

// zeroIf starts a bias at zero where the weight has an init of its own, as GPT-2 does.
func zeroIf(weight Init) Init {
	if weight == nil {
		return nil
	}
	return Constant(0)
}

// Forward takes x [B T C] and gives [B T C].
func (m *MultiHeadAttention) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return m.forward(s, x, nil, false, nil)
}

// forward is Forward; tokens go on behind those in cache, if there is one, mine says to free x when it has been used, and r is
// added to what comes out, unless it is nil.
func (m *MultiHeadAttention) forward(s *autograd.Scope, x *autograd.Value, cache *layerCache, mine bool, r *autograd.Value) *autograd.Value {
	return s.Do("attn", func(s *autograd.Scope) *autograd.Value {
		y := s.Do("", func(s *autograd.Scope) *autograd.Value { // ends queries, keys and values
			q, k, v := m.split(s, x, cache.filled(), mine)
			return cache.attend(s, q, k, v, ops.AttentionConfig{Causal: m.Causal, Dropout: m.Drop})
		})
		return m.Proj.forwardAdd(s, y, r)
	})
}

// split gives queries [B T H D], keys and values [B T G D] of x; the first token is at position pos.
func (m *MultiHeadAttention) split(s *autograd.Scope, x *autograd.Value, pos int, mine bool) (q, k, v *autograd.Value) {
	b, t := x.Dim(0), x.Dim(1)
	y := m.QKV.Forward(s, x)
	if mine {
		s.Free(x)
	}
	d := y.Dim(-1) / (m.Heads + 2*m.KVHeads)
	parts := ops.SplitSizes(s, y, -1, m.Heads*d, m.KVHeads*d, m.KVHeads*d)
	q = ops.Reshape(s, parts[0], b, t, m.Heads, d)
	k = ops.Reshape(s, parts[1], b, t, m.KVHeads, d)
	v = ops.Reshape(s, parts[2], b, t, m.KVHeads, d)
	if m.RoPEBase != 0 {
		q, k = ops.RoPE(s, q, m.rope(pos)), ops.RoPE(s, k, m.rope(pos))
	}
	return q, k, v
}

// rope is the rotation of tokens from position pos on.
func (m *MultiHeadAttention) rope(pos int) ops.RoPEConfig {
	return ops.RoPEConfig{Base: m.RoPEBase, Offset: pos}
}
