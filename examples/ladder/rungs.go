package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
)

// rung is one configuration of the ladder.
type rung struct {
	name    string
	what    string   // the change, for people
	micro   int      // micro-batches an update
	sgd     bool     // SGD with a cosine schedule instead of AdamW
	release bool     // the optimizer runs inside backward
	inPlace bool     // gradients are written over what died
	fused   bool     // linear and cross-entropy in one op. For language models; others ignore it
	chain   nn.Chain // how the blocks run; nil: as they are. For models that have blocks
	away    away     // what is on disk
	note    string   // what sets the row apart
}

// rungs are all configurations: the one list that a technique adds itself to.
var rungs = []rung{
	{name: "baseline", what: "float32, AdamW, the whole batch at once, a buffer for each gradient", micro: 1},
	{name: "in-place", what: "and backward writes gradients over what it has used up", micro: 1, inPlace: true},
	{name: "fused-head", what: "and the loss makes the logits of some tokens at a time", micro: 1, inPlace: true, fused: true},
	{name: "micro-batches", what: "and gradients of 16 micro-batches are added up before each update", micro: 16, inPlace: true, fused: true},
	{name: "sgd-cosine", what: "and plain SGD with a cosine schedule: no moments to keep", micro: 16, inPlace: true, fused: true, sgd: true, note: otherTraining},
	{name: "dear-only", what: "and backward computes norms, activations and dropout again", micro: 16, inPlace: true, fused: true, sgd: true, chain: dearOnly, note: otherTraining},
	{name: "per-block", what: "and backward computes each block again", micro: 16, inPlace: true, fused: true, sgd: true, chain: perBlock, note: otherTraining},
	{name: "fused-head-alone", what: "the loss makes the logits of some tokens at a time, the whole batch at once", micro: 1, fused: true},
	{name: "micro-batches-alone", what: "gradients of 16 micro-batches are added up before each update", micro: 16},
	{name: "dear-only-alone", what: "backward computes norms, activations and dropout again, the whole batch at once", micro: 1, chain: dearOnly},
	{name: "per-block-alone", what: "backward computes each block again, the whole batch at once", micro: 1, chain: perBlock},
	{name: "sqrt-alone", what: "backward computes about sqrt(blocks) runs of blocks again, the whole batch at once", micro: 1, chain: checkpoint.Chain(checkpoint.Sqrt)},
	{name: "sgd-alone", what: "plain SGD with a cosine schedule, the whole batch at once", micro: 1, sgd: true, note: otherTraining},
	{name: "gradient-release", what: "AdamW inside backward: no gradient outlives its update", micro: 1, release: true, note: otherTraining},
	{name: "offload-activations", what: "what backward reads waits on disk", micro: 1, away: away{activations: true}},
	{name: "offload-optimizer", what: "the optimizer's state is on disk and passes through tile by tile", micro: 1, away: away{state: true}},
	{name: "offload-parameters", what: "parameters and gradients are on disk and come when they are used", micro: 1, away: away{params: true}},
	{name: "offload-all", what: "all of it is on disk", micro: 1, away: away{activations: true, state: true, params: true}},
}

var (
	dearOnly = checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearOnly))
	perBlock = checkpoint.Chain(checkpoint.PerBlock)
)

const otherTraining = "other training"

// table is some rungs side by side.
type table struct {
	name  string // for -table
	title string
	rungs []string
}

// tables: the ladder itself, each rung on top of the one before, and techniques one by one.
var tables = []table{
	{"stack", "each row adds to the one before", []string{"baseline", "in-place", "fused-head", "micro-batches", "sgd-cosine", "dear-only", "per-block"}},
	{"alone", "each technique alone", []string{"baseline", "in-place", "fused-head-alone", "micro-batches-alone", "sgd-alone", "gradient-release"}},
	{"recompute", "what backward computes again, each alone", []string{"baseline", "dear-only-alone", "per-block-alone", "sqrt-alone"}},
	{"offload", "what is on disk while nobody needs it, each alone, and all", []string{"baseline", "offload-activations", "offload-optimizer", "offload-parameters", "offload-all"}},
}

func findTable(name string) (table, error) {
	var names []string
	for _, t := range tables {
		if t.name == name {
			return t, nil
		}
		names = append(names, t.name)
	}
	return table{}, fmt.Errorf("ladder: table %q: want one of %s", name, strings.Join(names, ", "))
}

// fit leaves out what another model is for: ways to run blocks, and the head of language models.
func (t table) fit(model string) table {
	t.rungs = slices.DeleteFunc(slices.Clone(t.rungs), func(name string) bool {
		r, err := findRung(name)
		return err == nil && (model == "mlp" && r.chain != nil || model != "gpt" && strings.HasPrefix(name, "fused-head"))
	})
	return t
}

// set makes the rung's way to run blocks the model's, and its activations in place if the rung is.
func (r rung) set(model any) error {
	switch m := model.(type) {
	case nn.Sequential:
		for i := range m {
			if _, ok := m[i].(nn.ReLU); ok {
				m[i] = nn.ReLU{InPlace: r.inPlace}
			}
		}
		if r.chain != nil {
			return fmt.Errorf("ladder: rung %s: the model has no blocks: want vit or gpt", r.name)
		}
	case *nn.ViT:
		m.Chain = r.chain
	case *nn.GPT:
		m.Chain = r.chain
	}
	return nil
}

func findRung(name string) (rung, error) {
	var names []string
	for _, r := range rungs {
		if r.name == name {
			return r, nil
		}
		names = append(names, r.name)
	}
	return rung{}, fmt.Errorf("ladder: rung %q: want one of %s", name, strings.Join(names, ", "))
}

// optimizer makes the rung's optimizer, and its schedule if it has one.
func (r rung) optimizer(params []*autograd.Param, p *problem, updates int, store optim.StateStore) (optim.Optimizer, *optim.CosineAnnealing, error) {
	if !r.sgd {
		opt, err := optim.NewAdamW(params, optim.AdamWConfig{LR: p.lr, WeightDecay: 0.01, Store: store})
		if err == nil && r.release {
			err = opt.ReleaseGradients()
		}
		return opt, nil, err
	}
	opt, err := optim.NewSGD(params, optim.SGDConfig{LR: p.sgdLR})
	if err != nil {
		return nil, nil, err
	}
	cosine, err := optim.NewCosineAnnealing(opt, optim.CosineConfig{TMax: updates})
	return opt, cosine, err
}
