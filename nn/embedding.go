package nn

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Embedding looks rows of a table up by their index, torch.nn.Embedding.
type Embedding struct {
	Weight *autograd.Param // [rows dim]
}

// EmbeddingConfig of an Embedding; its zero value is torch's default.
type EmbeddingConfig struct {
	DType tensor.DType // any float dtype; zero: Float32
	// How the table starts; nil: N(0, 1).
	InitWeight Init
}

// NewEmbedding makes a table of that many rows of dim features, at most one config given.
func NewEmbedding(sess *autograd.Session, rows, dim int, cfg ...EmbeddingConfig) (*Embedding, error) {
	k := newMaker("NewEmbedding", sess)
	c := config(k, cfg)
	k.positive("rows", rows)
	k.positive("dim", dim)
	l := &Embedding{Weight: k.param("weight", c.InitWeight.or(Normal(0, 1)), c.DType, rows, dim)}
	if err := k.end(); err != nil {
		return nil, err
	}
	return l, nil
}

// Forward takes indices [...], each from 0 to rows-1, of an integer dtype, and gives [... dim].
func (l *Embedding) Forward(s *autograd.Scope, index *autograd.Value) *autograd.Value {
	return ops.Embedding(s, value(l.Weight), index)
}
