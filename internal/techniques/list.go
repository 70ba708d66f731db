package main

import (
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// technique is a section of docs/techniques.md.
type technique struct {
	name        string
	plain, with setup // what is compared, and drawn
	also        []variant
	claims      func(p *trace, w []*trace) []claim // plain, then with and also
}

// variant is another way of the same technique, in the numbers but not in the picture.
type variant struct {
	name string
	setup
}

// claim is a formula, what it gives, and what the device counted.
type claim struct {
	what    string
	formula string
	worked  int64
	counted int64
}

// The parts of the formulas.
const (
	tokens  = 4 * B * T            // bytes of a float32 number a token
	kept    = L*(16*C+H+4) + C + 2 // numbers a token that the plain run keeps for backward: blocks, then the last norm
	inputs  = C + 2                // of those, the last norm's
	ring    = 8<<20 + 4096         // a store's
	blockW  = 12*C*C + 13*C        // parameters of a block
	vectors = L*13*C + 2*C         // of which the biases and norms, and the last norm
	numbers = L*blockW + 2*C + V*C + T*C
)

func chain(f func(int) checkpoint.Schedule, opts ...checkpoint.Option) nn.Chain {
	return checkpoint.Chain(f, opts...)
}

var techniques = []technique{
	{name: "autocast", with: setup{cast: amp.BFloat16}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"kept for backward, float32", "4BT(L(16C + H + 4) + C + 2)", tokens * kept, p.forward[memory.Activation]},
			{"kept for backward, autocast", "BT(L(36C + 4(H + 4)) + 4(C + 2))", B*T*(L*(36*C+4*(H+4))) + tokens*inputs, w[0].forward[memory.Activation]},
			{"parameters, gradients, moments: as before", "16P", 16 * numbers, states(w[0])},
		}
	}},
	{name: "scaler", plain: setup{cast: amp.Float16}, with: setup{cast: amp.Float16, scaled: true}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"the most gradients: as before", "4P", 4 * numbers, w[0].most[memory.Grad]},
			{"the peak: as before", "that of autocast", sum(p.peak), sum(w[0].peak)},
		}
	}},
	{name: "bf16", with: setup{dtype: tensor.BFloat16}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"parameters, gradients, moments, float32", "16P", 16 * numbers, states(p)},
			{"parameters, gradients, moments, bfloat16", "8P", 8 * numbers, states(w[0])},
			{"kept for backward", "BT(L(32C + 4(H + 4)) + 2C + 8)", B * T * (L*(32*C+4*(H+4)) + 2*C + 8), w[0].forward[memory.Activation]},
		}
	}},
	{name: "recompute", with: setup{chain: chain(checkpoint.PerBlock)}, also: []variant{
		{"dear only", setup{chain: chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearOnly))}},
		{"sqrt", setup{chain: chain(checkpoint.Sqrt)}},
		{"recursive", setup{chain: chain(checkpoint.Recursive)}},
		{"fitted to 256 MiB for the blocks", setup{budget: 256 << 20}},
	}, claims: recomputed},
	{name: "accumulate", with: setup{micro: 8}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"kept for backward, one batch", "4BT(L(16C + H + 4) + C + 2)", tokens * kept, p.forward[memory.Activation]},
			{"kept for backward, 8 micro-batches", "4BT/8 (L(16C + H + 4) + 2C + 3)", tokens / 8 * (kept + C + 1), w[0].forward[memory.Activation]},
			{"gradients, alive throughout", "4P", 4 * numbers, w[0].forward[memory.Grad]},
		}
	}},
	{name: "inplace", plain: setup{buffers: true}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"residual sums and positions, written over a branch", "(2L + 1) 4BTC", (2*L + 1) * tokens * C, over(w[0], "add_")},
			{"GELU's gradients, written over its input", "L 16BTC", L * tokens * 4 * C, over(w[0], "gelu_tanh'")},
			{"the most temporaries, before", "36BTC + 4", 9*tokens*C + 4, p.most[memory.Temporary]},
			{"the most temporaries, after", "24BTC + 4", 6*tokens*C + 4, w[0].most[memory.Temporary]},
		}
	}},
	{name: "head", plain: setup{plainHead: true}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"less kept for backward: logits, their input, a number a token", "4BT(V + C + 1)", tokens * (V + C + 1), p.forward[memory.Activation] - w[0].forward[memory.Activation]},
			{"and no gradient of the logits: temporaries at the peak", "4BTV + 4", tokens*V + 4, p.peak[memory.Temporary]},
		}
	}},
	{name: "optimizers", with: setup{optimizer: sgd}, also: []variant{{"Lion", setup{optimizer: lion}}, {"Adafactor", setup{optimizer: adafactor}}},
		claims: func(p *trace, w []*trace) []claim {
			return []claim{
				{"AdamW", "8P", 8 * numbers, p.rest[memory.OptState]},
				{"SGD", "0", 0, w[0].rest[memory.OptState]},
				{"Lion", "4P", 4 * numbers, w[1].rest[memory.OptState]},
				{"Adafactor: rows and columns of matrices, vectors whole", "4(V + C + T + C + 16LC + 13LC + 2C)", 4 * (V + C + T + C + 16*L*C + vectors), w[2].rest[memory.OptState]},
			}
		}},
	{name: "release", plain: setup{sequences: 1, chain: chain(checkpoint.PerBlock)}, with: setup{sequences: 1, chain: chain(checkpoint.PerBlock), optimizer: released},
		claims: func(p *trace, w []*trace) []claim {
			return []claim{
				{"the most gradients, before", "4P", 4 * numbers, p.most[memory.Grad]},
				{"the most gradients, after: the table's, which head and embedding share, and a layer's", "4VC + 4(4C^2 + 4C)", 4*V*C + 4*(4*C*C+4*C), w[0].most[memory.Grad]},
			}
		}},
	{name: "activations", with: setup{activations: true}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"on the device between forward and backward: what is under 64 KiB", "4BT(4L + 2)", tokens * (4*L + 2), w[0].forward[memory.Activation]},
			{"the ring", "8 x 1 MiB + 4 KiB", ring, w[0].rest[memory.Staging]},
		}
	}},
	{name: "moments", with: setup{state: true}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"moments on the device: those of biases and norms, under 64 KiB", "8(13LC + 2C)", 8 * vectors, w[0].most[memory.OptState]},
			{"the ring, and tiles of both moments while the optimizer runs", "8 x 1 MiB + 4 KiB + 2 x 1 MiB", ring + 2<<20, w[0].most[memory.Staging]},
		}
	}},
	{name: "parameters", with: setup{params: true}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"parameters between updates", "0", 0, w[0].rest[memory.Param]},
			{"the most parameters at once: the largest", "4VC", 4 * V * C, w[0].most[memory.Param]},
			{"the most gradients at once: the table's, which head and embedding share, and a layer's", "4VC + 4(4C^2 + 4C)", 4*V*C + 4*(4*C*C+4*C), w[0].most[memory.Grad]},
		}
	}},
	{name: "place", plain: setup{chain: chain(checkpoint.PerBlock)}, with: setup{chain: chain(checkpoint.PerBlock), place: true}, claims: func(p *trace, w []*trace) []claim {
		return []claim{
			{"the arena by a plan: the peak, rounded up to 64", "ceil(peak/64) 64", (sum(p.peak) + 63) / 64 * 64, w[0].placed},
		}
	}},
	{name: "basic", with: setup{cast: amp.BFloat16, micro: 4}, claims: combined},
	{name: "advanced", with: setup{cast: amp.BFloat16, micro: 16, chain: chain(checkpoint.PerBlock), optimizer: adafactor}, claims: combined},
	{name: "extreme", with: setup{dtype: tensor.BFloat16, micro: 16, chain: chain(checkpoint.PerBlock), activations: true, state: true, params: true}, claims: combined},
}

// recomputed are the claims of recomputation: what is kept at the end of forward, and the most there is in backward.
func recomputed(p *trace, w []*trace) []claim {
	const sqrtL = 3 // segments of sqrt, of 3 blocks each
	const log2L = 4 // halvings of 9 blocks
	most := func(tr *trace) int64 { return tr.most[memory.Activation] }
	end := func(tr *trace) int64 { return tr.forward[memory.Activation] }
	return []claim{
		{"plain: kept for backward", "4BT(L(16C + H + 4) + C + 2)", tokens * kept, end(p)},
		{"dear only: kept", "4BT(L(10C + H) + C + 2)", tokens * (L*(10*C+H) + inputs), end(w[1])},
		{"per block: kept", "4BT(LC + C + 2)", tokens * (L*C + inputs), end(w[0])},
		{"per block: the most in backward", "4BT((L + 15)C + H + 4)", tokens * ((L+15)*C + H + 4), most(w[0])},
		{"sqrt, k = 3: kept", "4BT(kC + C + 2)", tokens * (sqrtL*C + inputs), end(w[2])},
		{"sqrt, k = 3: the most in backward", "4BT((k - 1)C + L/k (16C + H + 4))", tokens * ((sqrtL-1)*C + L/sqrtL*(16*C+H+4)), most(w[2])},
		{"recursive: kept", "4BT(ceil(log2 L) C + C + 2)", tokens * (log2L*C + inputs), end(w[3])},
	}
}

// combined are the claims of a combination: there are formulas for its parts only.
func combined(*trace, []*trace) []claim { return nil }

// states are parameters, gradients when all are there, and the optimizer's state.
func states(tr *trace) int64 {
	return tr.rest[memory.Param] + tr.most[memory.Grad] + tr.rest[memory.OptState]
}

// over is what an op did not allocate.
func over(tr *trace, op string) int64 {
	for _, u := range tr.inPlace {
		if u.Op == op {
			return u.Bytes
		}
	}
	return 0
}

func sgd(p []*autograd.Param, _ optim.StateStore) (optim.Optimizer, error) {
	return optim.NewSGD(p, optim.SGDConfig{LR: 1e-2})
}

func lion(p []*autograd.Param, _ optim.StateStore) (optim.Optimizer, error) {
	return optim.NewLion(p, optim.LionConfig{LR: 1e-4})
}

func adafactor(p []*autograd.Param, _ optim.StateStore) (optim.Optimizer, error) {
	return optim.NewAdafactor(p, optim.AdafactorConfig{LR: 1e-2})
}

func released(p []*autograd.Param, _ optim.StateStore) (optim.Optimizer, error) {
	o, err := optim.NewAdamW(p, optim.AdamWConfig{LR: 1e-3})
	if err == nil {
		err = o.ReleaseGradients()
	}
	return o, err
}

func find(name string) (technique, error) {
	var names []string
	for _, t := range techniques {
		if t.name == name {
			return t, nil
		}
		names = append(names, t.name)
	}
	return technique{}, fmt.Errorf("techniques: %q: want one of %s", name, strings.Join(names, ", "))
}
