package main

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// prompt is what a sample begins with.
const prompt = "\nfunc "

// write has the model go on from the prompt.
func (t *trainer) write(ctx context.Context) (string, error) {
	random := rand.New(rand.NewPCG(t.seed, 0))
	text := []byte(prompt)
	for range t.sample {
		next, err := t.next(ctx, text[max(0, len(text)-t.context):], random)
		if err != nil {
			return "", err
		}
		text = append(text, next)
	}
	return printable(text), nil
}

// next draws the byte that follows text.
func (t *trainer) next(ctx context.Context, text []byte, random *rand.Rand) (b byte, err error) {
	ids := make([]int64, len(text))
	for i, c := range text {
		ids[i] = int64(c)
	}
	x, err := tensor.From(t.dev, memory.Input, memory.Site{Op: "sample"}, ids, 1, len(ids))
	if err != nil {
		return 0, err
	}
	defer x.Release()
	err = t.sess.Step(ctx, func(s *autograd.Scope) error {
		logits := tensor.Data[float32](t.model.Forward(s.NoGrad().Eval(), s.Input(x)).Tensor())
		b = draw(logits[len(logits)-256:], t.temperature, random)
		return nil
	})
	return b, err
}

// draw takes index i with a probability in proportion to exp(logits[i]/temperature).
func draw(logits []float32, temperature float64, random *rand.Rand) byte {
	highest := slices.Max(logits)
	if temperature == 0 {
		return byte(slices.Index(logits, highest))
	}
	weights, sum := make([]float64, len(logits)), 0.0
	for i, l := range logits {
		weights[i] = math.Exp(float64(l-highest) / temperature)
		sum += weights[i]
	}
	left := random.Float64() * sum
	for i, w := range weights {
		if left -= w; left < 0 {
			return byte(i)
		}
	}
	return byte(slices.Index(logits, highest)) // rounding
}

// printable is b as text that is safe on a terminal.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, string(b))
}
