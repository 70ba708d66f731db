package nn

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// ViT is a vision transformer: patches become tokens, a class token goes first, its last state is classified (Dosovitskiy
// et al., 2021).
type ViT struct {
	Cls    *autograd.Param // [1 1 C]
	Pos    *autograd.Param // [1 N+1 C]
	Patch  *Conv2D
	Drop   Dropout
	Blocks []*Block
	LNF    *LayerNorm `nn:"ln_f"`
	Head   *Linear

	Chain Chain   `nn:"-"` // nil: blocks run as they are
	Wrap  Wrapper `nn:"-"` // around each block; nil: none
}

// ViTConfig of a ViT. All sizes but Channels are required; Patch must divide Image.
type ViTConfig struct {
	Image, Patch, Channels     int // height and width, of a patch, channels in (0: 3)
	Dim, Heads, Layers, Hidden int // Hidden 0: 4 Dim
	Classes                    int
	Dropout                    float64
	DType                      tensor.DType
}

// NewViT makes a model; positions and class token start as N(0, 0.02), the rest as their layers do.
func NewViT(sess *autograd.Session, cfg ViTConfig) (*ViT, error) {
	if cfg.Channels == 0 {
		cfg.Channels = 3
	}
	k := newMaker("NewViT", sess)
	k.positive("image", cfg.Image)
	k.positive("patch", cfg.Patch)
	k.positive("dim", cfg.Dim)
	k.positive("layers", cfg.Layers)
	k.positive("classes", cfg.Classes)
	k.probability("dropout", cfg.Dropout)
	if k.err == nil && cfg.Image%cfg.Patch != 0 {
		k.failf("image %d, patch %d: want patches that divide the image", cfg.Image, cfg.Patch)
	}
	side := max(1, cfg.Image/max(1, cfg.Patch))
	m := &ViT{Drop: Dropout{P: cfg.Dropout, InPlace: true}}
	m.Cls = k.param("cls", Normal(0, 0.02), cfg.DType, 1, 1, cfg.Dim)
	m.Pos = k.param("pos", Normal(0, 0.02), cfg.DType, 1, side*side+1, cfg.Dim)
	if err := k.end(); err != nil {
		return nil, err
	}
	var err error
	if m.Patch, err = NewConv2D(sess, cfg.Channels, cfg.Dim, cfg.Patch, Conv2DConfig{Stride: cfg.Patch, DType: cfg.DType}); err != nil {
		return built(m, err)
	}
	for range cfg.Layers {
		b, err := NewBlock(sess, cfg.Dim, cfg.Heads, BlockConfig{Attention: AttentionConfig{DType: cfg.DType}, Dropout: cfg.Dropout, Hidden: cfg.Hidden})
		if err != nil {
			return built(m, err)
		}
		m.Blocks = append(m.Blocks, b)
	}
	if m.LNF, err = NewLayerNorm(sess, cfg.Dim, LayerNormConfig{DType: cfg.DType}); err != nil {
		return built(m, err)
	}
	m.Head, err = NewLinear(sess, cfg.Dim, cfg.Classes, LinearConfig{DType: cfg.DType})
	return built(m, err)
}

// Forward takes images [B channels H W] and gives logits [B classes].
func (m *ViT) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return s.Do("vit", func(s *autograd.Scope) *autograd.Value {
		x := s.Do("embed", func(s *autograd.Scope) *autograd.Value { return m.embed(s, x) })
		x = runBlocks(s, m.Chain, m.Wrap, x, m.Blocks)
		return s.Do("head", func(s *autograd.Scope) *autograd.Value {
			h := m.LNF.Forward(s, x)
			s.Free(x)
			return m.Head.Forward(s, ops.Select(s, h, 1, 0))
		})
	})
}

// embed gives [B N+1 C].
func (m *ViT) embed(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	t := s.Do("", func(s *autograd.Scope) *autograd.Value {
		p := m.Patch.Forward(s, x) // [B C h w]
		return ops.Transpose(s, ops.Reshape(s, p, p.Dim(0), p.Dim(1), p.Dim(2)*p.Dim(3)), 1, 2)
	}) // [B N C]
	y := ops.Cat(s, 1, ops.Expand(s, m.Cls.Value(), t.Dim(0), 1, t.Dim(2)), t)
	s.Free(t)
	return m.Drop.Forward(s, ops.AddInPlace(s, y, m.Pos.Value()))
}

// Loss is the mean cross-entropy of the logits for images against classes [B].
func (m *ViT) Loss(s *autograd.Scope, images, classes *autograd.Value) *autograd.Value {
	return s.Do("loss", func(s *autograd.Scope) *autograd.Value {
		return ops.CrossEntropy(s, m.Forward(s, images), classes)
	})
}
