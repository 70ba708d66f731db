package nn_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// generator is a model that generates, and the bytes that a position of its cache takes.
type generator struct {
	name  string
	m     nn.Generator
	full  nn.Module
	bytes int64
}

func generators(r *rig) []generator {
	gpt, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 11, Context: 12, Dim: 8, Heads: 2, Layers: 2, Dropout: 0.5})
	require.NoError(r.t, err)
	llama, err := nn.NewLlama(r.sess, nn.LlamaConfig{Vocab: 11, Dim: 16, Heads: 4, KVHeads: 2, Layers: 3, Hidden: 12, Tied: true})
	require.NoError(r.t, err)
	for i, p := range nn.AllParams([]any{gpt, llama}) { // larger weights than at the start, or all tokens are alike
		require.NoError(r.t, tensor.FillNormal(p.Tensor(), &tensor.Stream{Seed: uint64(i)}, 0, 0.5))
	}
	return []generator{{"gpt", gpt, gpt, 2 * 2 * 8 * 4}, {"llama", llama, llama, 2 * 3 * 8 * 4}}
}

// without generates by a whole forward pass for each token.
func without(r *rig, m nn.Module, prompt []int64, n int) []int64 {
	all := append([]int64(nil), prompt...)
	for range n {
		x := floats(r, all, 1, len(all))
		r.ok(func(s *autograd.Scope) {
			y := values(r.t, m.Forward(s.Eval().NoGrad(), s.Input(x)).Tensor())
			y, best := y[len(y)-11:], 0
			for i, v := range y {
				if v > y[best] {
					best = i
				}
			}
			all = append(all, int64(best))
		})
		x.Release()
	}
	return all[len(prompt):]
}

func TestGenerateGreedily(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	for _, g := range generators(r) {
		live, rand := r.dev.Stats().Live, r.sess.Rand()
		for _, prompt := range [][]int64{{3}, {1, 2, 3, 4, 5}, {7, 7, 0}} {
			got, err := nn.Generate(t.Context(), r.sess, g.m, prompt, 8, nn.GenerateConfig{})
			require.NoError(t, err)
			require.Equal(t, without(r, g.full, prompt, 8), got, g.name)
			top1, err := nn.Generate(t.Context(), r.sess, g.m, prompt, 8, nn.GenerateConfig{Temperature: 3, TopK: 1, Seed: 5})
			require.NoError(t, err)
			require.Equal(t, got, top1)
			require.Equal(t, live, r.dev.Stats().Live)
			require.Equal(t, rand, r.sess.Rand())
		}
	}
}

// However the tokens are cut, Next gives what Forward gives for all of them.
func TestNextEqualsForward(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	all := []int64{1, 2, 3, 4, 5, 6, 7, 10, 9, 8, 7, 6}
	x := floats(r, all, 2, 6)
	defer x.Release()
	for _, g := range generators(r) {
		var want []float64
		r.ok(func(s *autograd.Scope) { want = values(t, g.full.Forward(s.Eval(), s.Input(x)).Tensor()) })
		live := r.dev.Stats().Live
		cache, err := g.m.NewCache(2, 7)
		require.NoError(t, err)
		require.Equal(t, 7, cache.Max())
		require.Equal(t, 14*g.bytes, cache.Bytes())
		require.Equal(t, live+14*g.bytes, r.dev.Stats().Live)
		require.Equal(t, 14*g.bytes, r.dev.Stats().LiveByKind[memory.Other])
		for _, cuts := range [][]int{{6}, {1, 1, 1, 1, 1, 1}, {3, 1, 2}, {2, 4}} {
			at := 0
			cache.Reset()
			for _, n := range cuts {
				part, err := x.Slice(1, at, at+n)
				require.NoError(t, err)
				r.ok(func(s *autograd.Scope) {
					y := g.m.Next(s, s.Input(&part), cache)
					require.Equal(t, []int{2, n, 11}, y.Shape())
					require.False(t, y.RequiresGrad())
					for b := range 2 {
						row := values(t, y.Tensor())[b*n*11 : (b+1)*n*11]
						require.InDeltaSlice(t, want[(b*6+at)*11:(b*6+at+n)*11], row, 1e-5, "%s %v at %d", g.name, cuts, at)
					}
				})
				at += n
				require.Equal(t, at, cache.Len())
			}
		}
		cache.Close()
		cache.Close()
		require.Zero(t, cache.Bytes())
		require.Equal(t, live, r.dev.Stats().Live)
	}
}

// A step that fails, wherever, and a dry run leave the cache as it was; a dry run shows what happens.
func TestCacheInFailedAndDrySteps(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	x := floats(r, []int64{1, 2, 3, 4}, 2, 2)
	defer x.Release()
	for _, g := range generators(r) {
		cache, err := g.m.NewCache(2, 6)
		require.NoError(t, err)
		defer cache.Close()
		next := func(s *autograd.Scope) error { g.m.Next(s, s.Input(x), cache); return nil }
		require.NoError(t, r.sess.Step(t.Context(), next))
		require.Equal(t, 2, cache.Len())
		plan, err := r.sess.Plan(next, autograd.PlanConfig{Events: true})
		require.NoError(t, err)
		require.Empty(t, plan.Slack)
		require.Equal(t, 2, cache.Len())
		live := r.dev.Stats().Live
		var events []memory.Event
		for k := int64(1); ; k++ {
			r.dev.FailAt(k)
			events = nil
			r.dev.SetTrace(func(e memory.Event) { events = append(events, e) })
			err := r.sess.Step(t.Context(), next)
			r.dev.SetTrace(nil)
			r.dev.FailAt(0)
			require.Equal(t, live, r.dev.Stats().Live)
			if err == nil {
				break
			}
			require.Equal(t, 2, cache.Len())
		}
		require.Equal(t, 4, cache.Len())
		require.Len(t, events, len(plan.Steps[0].Events))
		require.NoError(t, r.sess.Step(t.Context(), next))
		require.ErrorContains(t, r.sess.Step(t.Context(), next),
			"autograd: next[int64[2 2]]: the context is full: 6 of 6 positions are taken and 2 more wanted: want a cache of more, or Reset")
		require.Equal(t, 6, cache.Len())
	}
}

func TestCacheAndGenerateRefuse(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	gs := generators(r)
	gpt, llama := gs[0].m, gs[1].m
	live := r.dev.Stats().Live
	generate := func(m nn.Generator, prompt []int64, n int, cfg nn.GenerateConfig) error {
		_, err := nn.Generate(context.Background(), r.sess, m, prompt, n, cfg)
		return err
	}
	p := []int64{1, 2}
	newCache := func(m nn.Generator, batch, max int) error { _, err := m.NewCache(batch, max); return err }
	next := func(m nn.Generator, c *nn.KVCache, shape ...int) error {
		x, err := tensor.Zeros(r.dev, memory.Input, site, tensor.Of(tensor.Int64, shape...))
		require.NoError(t, err)
		defer x.Release()
		return r.step(func(s *autograd.Scope) { m.Next(s, s.Input(x), c) })
	}
	cache, err := gpt.NewCache(2, 3)
	require.NoError(t, err)
	closed, err := gpt.NewCache(2, 3)
	require.NoError(t, err)
	closed.Close()
	within := func() (err error) {
		r.ok(func(*autograd.Scope) { err = newCache(gpt, 1, 1) })
		return err
	}
	cases := []struct {
		err  error
		want string
	}{
		{generate(gpt, p, 12, nn.GenerateConfig{}), "nn: Generate: 2 tokens of prompt and 12 more: nn: NewCache: the context is full: 13 positions: the model has 12"},
		{generate(gpt, nil, 1, nn.GenerateConfig{}), "nn: Generate: the prompt is empty"},
		{generate(gpt, p, -1, nn.GenerateConfig{}), "nn: Generate: -1 tokens: want 0 or more"},
		{generate(gpt, p, 1, nn.GenerateConfig{Temperature: -1}), "nn: Generate: temperature -1: want 0"},
		{generate(gpt, p, 1, nn.GenerateConfig{TopK: -1}), "nn: Generate: top k -1: want 0"},
		{generate(gpt, []int64{1, 11}, 1, nn.GenerateConfig{}), "nn: Generate: token 0: autograd: gpt/embed: embedding"},
		{newCache(gpt, 0, 1), "nn: NewCache: batch 0: want 1 or more"},
		{newCache(llama, 1, 0), "nn: NewCache: positions 0: want 1 or more"},
		{within(), "nn: NewCache: made within a step: make caches before"},
		{next(gpt, cache, 1, 2), "want tokens [2 T], the cache's batch, and at least one"},
		{next(gpt, cache, 2, 0), "want tokens [2 T], the cache's batch, and at least one"},
		{next(gpt, cache, 2, 4), "the context is full: 0 of 3 positions are taken and 4 more wanted"},
		{next(llama, cache, 2, 1), "the cache is of another session or model"},
		{next(gpt, closed, 2, 1), "the cache is nil or closed"},
		{next(gpt, nil, 2, 1), "the cache is nil or closed"},
	}
	for _, c := range cases {
		require.ErrorContains(t, c.err, c.want)
	}
	cache.Close()
	require.Equal(t, live, r.dev.Stats().Live)
	for k := range int64(4) {
		r.dev.FailAt(k + 1)
		require.Error(t, newCache(gpt, 1, 1))
		require.Equal(t, live, r.dev.Stats().Live)
	}
	require.NoError(t, generate(gpt, p, 0, nn.GenerateConfig{}))
	require.NoError(t, generate(gpt, p, 11, nn.GenerateConfig{}), "the whole context")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = nn.Generate(ctx, r.sess, gpt, p, 3, nn.GenerateConfig{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, live, r.dev.Stats().Live)
}

func TestGenerateBySampling(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	gpt := generators(r)[0].m
	draw := func(cfg nn.GenerateConfig) []int64 {
		out, err := nn.Generate(t.Context(), r.sess, gpt, []int64{1}, 11, cfg)
		require.NoError(t, err)
		return out
	}
	hot := nn.GenerateConfig{Temperature: 50, Seed: 1}
	require.Equal(t, draw(hot), draw(hot))
	other := hot
	other.Seed = 2
	require.NotEqual(t, draw(hot), draw(other))
	seen, two := map[int64]bool{}, map[int64]bool{}
	for seed := range uint64(40) {
		seen[draw(nn.GenerateConfig{Temperature: 50, Seed: seed})[0]] = true
		two[draw(nn.GenerateConfig{Temperature: 50, TopK: 2, Seed: seed})[0]] = true
	}
	require.Greater(t, len(seen), 6)
	require.Len(t, two, 2)
	require.Equal(t, draw(nn.GenerateConfig{}), draw(nn.GenerateConfig{Temperature: 1e-9}))
}

// On a virtual device generation counts its bytes.
func TestGenerateWithoutNumbers(t *testing.T) {
	dev, err := memory.NewDevice(memory.Config{Virtual: true})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	require.NoError(t, err)
	r := &rig{t, dev, sess}
	defer r.close()
	m, err := nn.NewLlama(sess, nn.Llama7B)
	require.NoError(t, err)
	live := dev.Stats().Live
	out, err := nn.Generate(t.Context(), sess, m, make([]int64, 100), 3, nn.GenerateConfig{})
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0, 0}, out)
	require.Equal(t, live, dev.Stats().Live)
	require.EqualValues(t, 2*32*102*4096*4, dev.Stats().PeakByKind[memory.Other])
}

func TestGenerateRefusesNaN(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	m, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 3, Context: 6, Dim: 8, Heads: 2, Layers: 1})
	require.NoError(t, err)
	require.NoError(t, tensor.Fill(m.LNF.Bias.Tensor(), math.NaN()))
	out, err := nn.Generate(t.Context(), r.sess, m, []int64{1}, 3, nn.GenerateConfig{})
	require.EqualError(t, err, "nn: Generate: token 0: the logits have NaN in them")
	require.Empty(t, out)
}
