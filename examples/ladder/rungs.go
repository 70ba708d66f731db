package main

import (
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/optim"
)

// rung is one configuration of the ladder. Each takes what the rung before it has, and changes one thing.
type rung struct {
	name  string
	what  string // the change, for people
	micro int    // micro-batches an update
	sgd   bool   // SGD with a cosine schedule instead of AdamW
	note  string // what sets the row apart
}

// rungs is the ladder, in order: the one list that a technique adds itself to.
var rungs = []rung{
	{name: "baseline", what: "float32, AdamW, the whole batch at once", micro: 1},
	{name: "micro-batches", what: "gradients of 16 micro-batches are added up before each update", micro: 16},
	{name: "sgd-cosine", what: "plain SGD with a cosine schedule: no moments to keep", micro: 16, sgd: true, note: "other training"},
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
func (r rung) optimizer(params []*autograd.Param, updates int) (optim.Optimizer, *optim.CosineAnnealing, error) {
	if !r.sgd {
		opt, err := optim.NewAdamW(params, optim.AdamWConfig{LR: 2e-3, WeightDecay: 0.01})
		return opt, nil, err
	}
	opt, err := optim.NewSGD(params, optim.SGDConfig{LR: 0.5})
	if err != nil {
		return nil, nil, err
	}
	cosine, err := optim.NewCosineAnnealing(opt, optim.CosineConfig{TMax: updates})
	return opt, cosine, err
}
