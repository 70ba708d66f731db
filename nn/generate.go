package nn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Generator is a language model that goes on behind a cache of keys and values: GPT and Llama.
type Generator interface {
	NewCache(batch, max int) (*KVCache, error)
	Next(s *autograd.Scope, tokens *autograd.Value, cache *KVCache) *autograd.Value
}

// GenerateConfig says how Generate chooses a token. Its zero value takes the most likely one.
type GenerateConfig struct {
	Temperature float64 // what logits are divided by before one is drawn; 0: the largest is taken, the first of equal ones
	TopK        int     // only so many of the most likely tokens are drawn from; 0: all
	Seed        uint64  // of what is drawn: same seed, same tokens
}

// Generate gives the n tokens with which model goes on behind prompt, each fed back to it. It allocates a cache of
// len(prompt)+n-1 positions, gives it back, and is an error if the model has no room for that many. The prompt is one step
// of sess, each token another; sess's stream is not drawn from. With an error, that of ctx too, come the tokens so far. On
// a virtual device, where there are no numbers, every token is 0.
func Generate(ctx context.Context, sess *autograd.Session, model Generator, prompt []int64, n int, cfg GenerateConfig) ([]int64, error) {
	if err := cfg.check(prompt, n); err != nil {
		return nil, fmt.Errorf("nn: Generate: %w", err)
	}
	if n == 0 {
		return nil, nil
	}
	cache, err := model.NewCache(1, len(prompt)+n-1)
	if err != nil {
		return nil, fmt.Errorf("nn: Generate: %d tokens of prompt and %d more: %w", len(prompt), n, err)
	}
	defer cache.Close()
	rng := rand.New(rand.NewPCG(cfg.Seed, 0))
	var out []int64
	for feed := prompt; len(out) < n; feed = out[len(out)-1:] {
		if ctx != nil && ctx.Err() != nil {
			return out, fmt.Errorf("nn: Generate: %w", ctx.Err())
		}
		logits, err := nextLogits(ctx, sess, model, cache, feed)
		if err != nil {
			return out, fmt.Errorf("nn: Generate: token %d: %w", len(out), err)
		}
		token, err := cfg.choose(logits, rng)
		if err != nil {
			return out, fmt.Errorf("nn: Generate: token %d: %w", len(out), err)
		}
		out = append(out, token)
	}
	return out, nil
}

func (c GenerateConfig) check(prompt []int64, n int) error {
	switch {
	case len(prompt) == 0:
		return errors.New("the prompt is empty: want one token or more to go on from")
	case n < 0:
		return fmt.Errorf("%d tokens: want 0 or more", n)
	case !(c.Temperature >= 0) || math.IsInf(c.Temperature, 0):
		return fmt.Errorf("temperature %v: want 0 (the most likely token) or more", c.Temperature)
	case c.TopK < 0:
		return fmt.Errorf("top k %d: want 0 (all tokens) or more", c.TopK)
	}
	return nil
}

// nextLogits feeds tokens to model and gives the logits behind the last one; nil if the device has no numbers.
func nextLogits(ctx context.Context, sess *autograd.Session, model Generator, cache *KVCache, tokens []int64) (row []float64, err error) {
	x, err := tensor.From(sess.Device(), memory.Input, memory.Site{Op: "generate"}, tokens, 1, len(tokens))
	if err != nil {
		return nil, err
	}
	defer x.Release()
	err = sess.Step(ctx, func(s *autograd.Scope) error {
		y := model.Next(s, s.Input(x), cache).Tensor()
		if s.Dry() {
			return nil
		}
		row = make([]float64, y.Dim(-1))
		for i := range row {
			row[i] = y.At(0, y.Dim(1)-1, i)
		}
		return nil
	})
	return row, err
}

// choose gives the token that logits and chance decide on.
func (c GenerateConfig) choose(logits []float64, rng *rand.Rand) (int64, error) {
	if len(logits) == 0 {
		return 0, nil
	}
	if slices.ContainsFunc(logits, math.IsNaN) {
		return 0, errors.New("the logits have NaN in them")
	}
	if c.Temperature == 0 {
		return int64(slices.Index(logits, slices.Max(logits))), nil
	}
	order := make([]int, len(logits)) // tokens, the likeliest first
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(logits[j], logits[i]) })
	if c.TopK > 0 {
		order = order[:min(c.TopK, len(order))]
	}
	top := logits[order[0]]
	if math.IsInf(top, 0) {
		return int64(order[0]), nil
	}
	weight := make([]float64, len(order))
	sum := 0.0
	for k, i := range order {
		weight[k] = math.Exp((logits[i] - top) / c.Temperature)
		sum += weight[k]
	}
	u := rng.Float64() * sum
	for k, w := range weight {
		if u -= w; u < 0 {
			return int64(order[k]), nil
		}
	}
	return int64(order[0]), nil // the sum, rounded, was not reached
}
