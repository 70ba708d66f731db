package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// rung is one configuration of the ladder.
type rung struct {
	name string
	what string // what it adds, for people
	note string // what sets the row apart
	kind kind

	naive   bool                // the model is made of elementary operations
	buffers bool                // each gradient has a buffer of its own: nothing is written over
	fused   bool                // linear and cross-entropy in one op. For language models
	micro   int                 // micro-batches an update
	dtype   tensor.DType        // of parameters, and with them of gradients and moments
	cast    autograd.CastPolicy // of products
	half    optim.HalfUpdate    // how an update of a half type is rounded
	sgd     bool                // SGD with a cosine schedule instead of AdamW
	release bool                // the optimizer runs inside backward
	chain   nn.Chain            // how the blocks run; nil: as they are. For models that have blocks
	away    away                // what is on disk
}

// baseline is what the library does if nothing is asked of it. (A language model gets the fused head too; here it is a rung.)
var baseline = rung{name: "baseline", what: "float32, AdamW, the whole batch at once", micro: 1, dtype: tensor.Float32}

// technique turns a rung into the next one.
type technique struct {
	name, what string
	models     string // the models it is for
	kind       kind
	add        func(*rung)
}

// kind is what a technique does to a training.
type kind uint8

const (
	exact  kind = 1 << iota // it moves or computes again: the bits are those of the training that it is added to
	side                    // beside the ladder: no rung builds on it
	rounds kind = 0         // the result differs in rounding, or more
)

const (
	anyModel = "vit mlp gpt"
	blocks   = "vit gpt" // models that have blocks
)

// stack are the techniques in the order in which they pay: each rung of the ladder has those before it too.
var stack = []technique{
	{"fused-head", "the loss makes the logits of some tokens at a time, and never holds all", "gpt", rounds, func(r *rung) { r.fused = true }},
	{"dear-only", "backward computes norms, activations and dropout again", blocks, exact, func(r *rung) { r.chain = dearOnly }},
	{"micro-batches", "gradients of 16 micro-batches are added up before each update", anyModel, rounds, func(r *rung) { r.micro = 16 }},
	{"bf16-autocast", "products are in bfloat16, parameters and sums in float32", anyModel, side, func(r *rung) { r.cast = amp.BFloat16 }},
	{"fp16-autocast", "products are in float16, and losses are scaled lest small gradients vanish", anyModel, side, func(r *rung) { r.cast = amp.Float16 }},
	{"bf16", "everything is in bfloat16, updates are rounded up or down at random", anyModel, rounds, func(r *rung) { r.dtype, r.half = tensor.BFloat16, optim.RoundStochastic }},
	{"sgd-cosine", "plain SGD with a cosine schedule: no moments to keep", anyModel, rounds, func(r *rung) { r.sgd, r.note = true, otherTraining }},
	{"per-block", "backward computes each block again", blocks, exact, func(r *rung) { r.chain = perBlock }},
	{"sqrt", "backward computes about sqrt(blocks) runs of blocks again", blocks, exact | side, func(r *rung) { r.chain = sqrt }},
	{"offload", "activations, parameters and gradients are on disk while nobody needs them", anyModel, exact, func(r *rung) { r.away = away{activations: true, params: true} }},
	{"all-adamw", "AdamW again, its moments on disk too", anyModel, exact | side, func(r *rung) { r.sgd, r.note, r.away.state = false, "", true }},
}

// alone are techniques that stand by themselves only: what they take away, rungs of the ladder do without already.
var alone = []technique{
	{"gradient-release", "AdamW inside backward: no gradient outlives its update", anyModel, exact, func(r *rung) { r.release, r.note = true, otherTraining }},
	{"offload-activations", "what backward reads waits on disk", anyModel, exact, func(r *rung) { r.away.activations = true }},
	{"offload-parameters", "parameters and gradients are on disk and come when they are used", anyModel, exact, func(r *rung) { r.away.params = true }},
	{"offload-optimizer", "the optimizer's state is on disk and passes through tile by tile", anyModel, exact, func(r *rung) { r.away.state = true }},
	{"offload-all", "activations, state, parameters and gradients are on disk", anyModel, exact, func(r *rung) { r.away = away{true, true, true} }},
}

// defaults lead from a model that is written down naively to the baseline.
var defaults = []technique{
	{"naive", "the model in elementary operations, a buffer for each gradient", anyModel, rounds, func(r *rung) { r.naive, r.buffers = true, true }},
	{"composite", "norms, attention, GELU and the loss are one operation each", anyModel, rounds, func(r *rung) { r.buffers = true }},
	{"in-place", "backward writes gradients over what it has used up: this is the baseline", anyModel, exact, func(*rung) {}},
}

var (
	dearOnly = checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearOnly))
	perBlock = checkpoint.Chain(checkpoint.PerBlock)
	sqrt     = checkpoint.Chain(checkpoint.Sqrt)
)

const otherTraining = "other training: judge it by its memory"

// table is some rungs side by side.
type table struct {
	name  string // for -table
	title string
	brief bool // a few updates, without accuracy
	rungs []rung
}

var tableNames = []string{"stack", "alone", "defaults"}

// tablesFor gives the tables of a model: the ladder, each rung on top of the one before; techniques one by one; and what
// the baseline owes to the library's defaults.
func tablesFor(model string) []table {
	ladder := []rung{baseline}
	single := []rung{baseline}
	for _, t := range stack {
		if !t.fits(model) {
			continue
		}
		ladder = append(ladder, t.on(under(ladder)))
		if t.name != "offload" && t.name != "all-adamw" {
			single = append(single, t.aloneOn(baseline))
		}
	}
	for _, t := range alone {
		single = append(single, t.on(baseline))
	}
	var bare []rung
	for _, t := range defaults {
		bare = append(bare, t.on(baseline))
	}
	return []table{
		{"stack", "the ladder: each row adds to the one before", false, ladder},
		{"alone", "each technique alone", true, single},
		{"defaults", "what the library does unasked", true, bare},
	}
}

func (t technique) fits(model string) bool { return slices.Contains(strings.Fields(t.models), model) }

// on gives r with the technique added.
func (t technique) on(r rung) rung {
	r.name, r.what, r.kind = t.name, t.what, t.kind
	t.add(&r)
	return r
}

// aloneOn is on, under a name that the ladder does not have.
func (t technique) aloneOn(r rung) rung {
	r = t.on(r)
	r.name, r.kind = r.name+"-alone", r.kind&^side
	return r
}

// under gives the rung that the next one builds on.
func under(ladder []rung) rung {
	for _, r := range slices.Backward(ladder) {
		if r.kind&side == 0 {
			return r
		}
	}
	return baseline
}

func findTable(model, name string) (table, error) {
	for _, t := range tablesFor(model) {
		if t.name == name {
			return t, nil
		}
	}
	return table{}, fmt.Errorf("ladder: table %q: want one of %s", name, strings.Join(tableNames, ", "))
}

func findRung(model, name string) (rung, error) {
	var names []string
	for _, t := range tablesFor(model) {
		for _, r := range t.rungs {
			if r.name == name {
				return r, nil
			}
			if !slices.Contains(names, r.name) {
				names = append(names, r.name)
			}
		}
	}
	return rung{}, fmt.Errorf("ladder: rung %q: -model %s has %s", name, model, strings.Join(names, ", "))
}

// set makes the rung's way to run blocks the model's, and its activations in place unless the rung has buffers for them.
func (r rung) set(model any) {
	if r.naive {
		naively(model)
	}
	switch m := model.(type) {
	case nn.Sequential:
		for i := range m {
			if _, ok := m[i].(nn.ReLU); ok {
				m[i] = nn.ReLU{InPlace: !r.buffers}
			}
		}
	case *nn.ViT:
		m.Chain = r.chain
	case *nn.GPT:
		m.Chain = r.chain
	}
}

// optimizer makes the rung's optimizer, and its schedule if it has one.
func (r rung) optimizer(params []*autograd.Param, p *problem, updates int, store optim.StateStore) (optim.Optimizer, *optim.CosineAnnealing, error) {
	if !r.sgd {
		opt, err := optim.NewAdamW(params, optim.AdamWConfig{LR: p.lr, WeightDecay: 0.01, Store: store, Half: r.half})
		if err == nil && r.release {
			err = opt.ReleaseGradients()
		}
		return opt, nil, err
	}
	opt, err := optim.NewSGD(params, optim.SGDConfig{LR: p.sgdLR, Half: r.half})
	if err != nil {
		return nil, nil, err
	}
	cosine, err := optim.NewCosineAnnealing(opt, optim.CosineConfig{TMax: updates})
	return opt, cosine, err
}
