package main

import (
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/optim"
)

// rung is one configuration of the ladder.
type rung struct {
	name    string
	what    string // the change, for people
	micro   int    // micro-batches an update
	sgd     bool   // SGD with a cosine schedule instead of AdamW
	release bool   // the optimizer runs inside backward
	note    string // what sets the row apart
}

// rungs are all configurations: the one list that a technique adds itself to.
var rungs = []rung{
	{name: "baseline", what: "float32, AdamW, the whole batch at once", micro: 1},
	{name: "micro-batches", what: "gradients of 16 micro-batches are added up before each update", micro: 16},
	{name: "sgd-cosine", what: "and plain SGD with a cosine schedule: no moments to keep", micro: 16, sgd: true, note: otherTraining},
	{name: "sgd-alone", what: "plain SGD with a cosine schedule, the whole batch at once", micro: 1, sgd: true, note: otherTraining},
	{name: "gradient-release", what: "AdamW inside backward: no gradient outlives its update", micro: 1, release: true, note: otherTraining},
}

const otherTraining = "other training"

// table is some rungs side by side.
type table struct {
	name  string // for -table
	title string
	rungs []string
}

// tables: the ladder itself, each rung on top of the one before, and techniques one by one.
var tables = []table{
	{"stack", "each row adds to the one before", []string{"baseline", "micro-batches", "sgd-cosine"}},
	{"alone", "each technique alone", []string{"baseline", "micro-batches", "sgd-alone", "gradient-release"}},
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
func (r rung) optimizer(params []*autograd.Param, p *problem, updates int) (optim.Optimizer, *optim.CosineAnnealing, error) {
	if !r.sgd {
		opt, err := optim.NewAdamW(params, optim.AdamWConfig{LR: p.lr, WeightDecay: 0.01})
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
