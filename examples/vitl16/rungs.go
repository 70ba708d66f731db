package main

import (
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/nn"
)

// rung is one configuration.
type rung struct {
	name      string
	what      string              // for people
	batch     int                 // images an update
	micro     int                 // images at a time
	cast      autograd.CastPolicy // products in a half type
	chain     nn.Chain            // how the blocks run; nil: as they are
	away      away                // what is on disk
	published int64               // bytes that the article measured; 0: it has no such rung
}

// away is what is on disk while nobody needs it.
type away struct {
	state       bool // the optimizer's
	params      bool // parameters and their gradients
	activations bool
}

// any tells whether there is something.
func (a away) any() bool { return a != away{} }

// windows is how many micro-batches an update has.
func (r rung) windows() int { return r.batch / r.micro }

// table is some rungs that belong together.
type table struct {
	title string
	rungs []rung
}

var perBlock = checkpoint.Chain(checkpoint.PerBlock)

// tables: the article's rungs, and the same training as its first in less. Published are max_memory_reserved in bytes:
// Sebastian Raschka, "Optimizing Memory Usage for Training LLMs and Vision Transformers in PyTorch", 2023.
var tables = []table{
	{"the article's rungs", []rung{
		{name: "baseline", what: "float32, Adam, 64 images at once", batch: 64, micro: 64, published: 26.84e9},
		{name: "mixed-fp16", what: "and products in float16", batch: 64, micro: 64, cast: amp.Float16, published: 18.21e9},
	}},
	{"the baseline's training: float32, Adam, 64 images an update", []rung{
		{name: "micro-batches", what: "64 micro-batches of one image", batch: 64, micro: 1},
		{name: "per-block", what: "and backward computes each block again", batch: 64, micro: 1, chain: perBlock},
		{name: "moments-on-disk", what: "and Adam's moments pass through tile by tile", batch: 64, micro: 1, chain: perBlock, away: away{state: true}},
		{name: "all-on-disk-by-8", what: "and parameters, gradients and blocks' inputs are on disk; 8 images at a time, so that they move less often",
			batch: 64, micro: 8, chain: perBlock, away: away{true, true, true}},
		{name: "all-on-disk", what: "the same with one image at a time", batch: 64, micro: 1, chain: perBlock, away: away{true, true, true}},
	}},
}

// all are the rungs of all tables in order.
func all() (list []rung) {
	for _, t := range tables {
		list = append(list, t.rungs...)
	}
	return list
}

func find(name string) (rung, error) {
	var names []string
	for _, r := range all() {
		if r.name == name {
			return r, nil
		}
		names = append(names, r.name)
	}
	return rung{}, fmt.Errorf("vitl16: rung %q: want one of %s", name, strings.Join(names, ", "))
}
