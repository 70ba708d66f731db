package nn

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// KVCache holds the keys and values of the tokens that a model has seen, so that the next one costs one token's work and
// not that of all. It is allocated up front, counted as memory.Other: 2 Layers Batch Max G D elements.
type KVCache struct {
	sess       *autograd.Session
	layers     []kv
	batch, max int
	n          int // positions that are filled
}

// kv is the keys and values of a layer, [B Tmax G D].
type kv struct{ k, v *tensor.Tensor }

// newCache makes a cache of that many layers with rows of groups key-value heads of dim channels, of the dtype and session
// of table.
func newCache(table *autograd.Param, layers, batch, positions, groups, dim int) (*KVCache, error) {
	c := &KVCache{sess: table.Session(), batch: batch, max: positions}
	m := newMaker("NewCache", c.sess)
	m.positive("batch", batch)
	m.positive("positions", positions)
	if m.err == nil && c.sess.Running() {
		m.failf("made within a step: make caches before")
	}
	if err := m.end(); err != nil {
		return nil, err
	}
	spec := tensor.Of(table.Spec().DType, batch, positions, groups, dim)
	for i := range layers {
		site := memory.Site{Op: "cache", Scope: fmt.Sprintf("blocks.%d", i)}
		k, err := tensor.New(c.sess.Device(), memory.Other, site, spec)
		if err == nil {
			c.layers = append(c.layers, kv{k: k})
			c.layers[i].v, err = tensor.New(c.sess.Device(), memory.Other, site, spec)
		}
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("nn: NewCache: %w", err)
		}
	}
	return c, nil
}

// Len is how many positions are filled. A step that fails and a dry run leave it as it was.
func (c *KVCache) Len() int { return c.n }

// Max is how many positions there are.
func (c *KVCache) Max() int { return c.max }

// Bytes is what the cache takes, filled or not; 0 once it is closed.
func (c *KVCache) Bytes() (n int64) {
	for _, l := range c.layers {
		n += l.k.Bytes() + l.v.Bytes()
	}
	return n
}

// Reset empties the cache and keeps its memory.
func (c *KVCache) Reset() { c.n = 0 }

// Close gives the memory back; a second Close does nothing. It must not be called within a step.
func (c *KVCache) Close() {
	for _, l := range c.layers {
		l.k.Release()
		if l.v != nil {
			l.v.Release()
		}
	}
	c.layers = nil
}

// next runs f, a model's forward pass over tokens [B T], in inference and with the place of the tokens in c claimed.
func (c *KVCache) next(s *autograd.Scope, name string, layers int, tokens *autograd.Value, f Forward) *autograd.Value {
	if err := c.accepts(s, layers, tokens.Spec()); err != nil {
		panic(&autograd.Error{Op: "next", Scope: s.Path(), In: []tensor.Spec{tokens.Spec()}, Err: err})
	}
	y := s.NoGrad().Eval().Do(name, func(s *autograd.Scope) *autograd.Value { return f(s, tokens) })
	autograd.Journal(c.sess, &c.n)
	c.n += tokens.Dim(1)
	return y
}

func (c *KVCache) accepts(s *autograd.Scope, layers int, tokens tensor.Spec) error {
	switch {
	case s.Modes().Replay:
		return errors.New("called in a recomputation, where the cache would grow a second time: generate outside of checkpointed regions")
	case c == nil || len(c.layers) == 0:
		return errors.New("the cache is nil or closed: want one from NewCache")
	case c.sess != s.Session() || len(c.layers) != layers:
		return errors.New("the cache is of another session or model: want one from this model's NewCache")
	case tokens.Rank() != 2 || tokens.Dim(0) != c.batch || tokens.Dim(1) < 1:
		return fmt.Errorf("want tokens [%d T], the cache's batch, and at least one", c.batch)
	case c.n+tokens.Dim(1) > c.max:
		return fmt.Errorf("the context is full: %d of %d positions are taken and %d more wanted: want a cache of more, or Reset", c.n, c.max, tokens.Dim(1))
	}
	return nil
}

// run runs block i behind what the cache holds, and frees x.
func (c *KVCache) run(s *autograd.Scope, i int, x *autograd.Value, block stage) *autograd.Value {
	return s.Do("blocks."+strconv.Itoa(i), func(s *autograd.Scope) *autograd.Value {
		return block.forward(s, x, &layerCache{c.layers[i], c.n}, true)
	})
}

// layerCache is one layer of a cache; nil for attention without one.
type layerCache struct {
	kv
	n int
}

// filled is the position of the first new token.
func (l *layerCache) filled() int {
	if l == nil {
		return 0
	}
	return l.n
}

// attend is attention of q to k and v and, if there is a cache, to what came before, as [B T C]. k and v go into the cache.
func (l *layerCache) attend(s *autograd.Scope, q, k, v *autograd.Value, cfg ops.AttentionConfig) *autograd.Value {
	if l != nil {
		k, v = l.grow(s, l.k, k), l.grow(s, l.v, v)
		if cfg.Causal {
			cfg.Align = ops.AlignBottomRight
		}
	}
	y := ops.Attention(s, q, k, v, cfg)
	return ops.Reshape(s, y, y.Dim(0), y.Dim(1), y.Dim(2)*y.Dim(3))
}

// grow writes x [B T G D] behind what dst holds, frees it and gives all of dst.
func (l *layerCache) grow(s *autograd.Scope, dst *tensor.Tensor, x *autograd.Value) *autograd.Value {
	end := l.n + x.Dim(1)
	at, err := dst.Slice(1, l.n, end)
	if err == nil {
		err = tensor.Copy(&at, x.Tensor())
	}
	if err != nil {
		panic(&autograd.Error{Op: "cache", Scope: s.Path(), In: []tensor.Spec{dst.Spec(), x.Spec()}, Err: err})
	}
	s.Free(x)
	return ops.Slice(s, s.Input(dst), 1, 0, end)
}
