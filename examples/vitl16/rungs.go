package main

import (
	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// rung is one configuration.
type rung struct {
	name      string
	what      string              // for people
	batch     int                 // images an update
	micro     int                 // images at a time
	cast      autograd.CastPolicy // products in a half type
	dtype     tensor.DType        // of parameters, gradients, moments and images; the zero value is float32
	sgd       bool                // without moments, its rate by a cosine
	chain     nn.Chain            // how the blocks run; nil: as they are
	away      away                // what is on disk
	published int64               // bytes that the article measured; 0: it has no such rung
	note      string              // what sets the row apart
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

const (
	bf16  = tensor.BFloat16
	other = "other training than the baseline's: rounded weights, from batch-16 to sgd a smaller batch, from sgd on another optimizer"
)

// tables: the article's rungs and what comes after them, and the same training as its first rung in less. Published are
// max_memory_reserved in bytes: Sebastian Raschka, "Optimizing Memory Usage for Training LLMs and Vision Transformers in
// PyTorch", 2023.
var tables = []table{
	{"the article's rungs, and further", []rung{
		{name: "baseline", what: "float32, Adam, 64 images at once", batch: 64, micro: 64, published: 26.84e9},
		{name: "mixed-fp16", what: "products in float16, the loss scaled", batch: 64, micro: 64, cast: amp.Float16, published: 18.21e9},
		{name: "bf16", what: "everything in bfloat16", batch: 64, micro: 64, dtype: bf16, published: 13.82e9, note: other},
		{name: "batch-16", what: "and 16 images an update", batch: 16, micro: 16, dtype: bf16, published: 5.69e9, note: other},
		{name: "micro-batch-4", what: "and 4 at a time, gradients accumulated", batch: 16, micro: 4, dtype: bf16, published: 3.91e9, note: other},
		{name: "sgd", what: "and SGD with a cosine instead of Adam: the article's last rung", batch: 16, micro: 4, dtype: bf16, sgd: true, published: 2.02e9, note: other},
		{name: "micro-batch-1", what: "and 64 images an update again, one at a time", batch: 64, micro: 1, dtype: bf16, sgd: true, note: other},
		{name: "per-block", what: "and backward computes each block again", batch: 64, micro: 1, dtype: bf16, sgd: true, chain: perBlock, note: other},
		{name: "on-disk", what: "and gradients are accumulated on disk, where the parameters are too", batch: 64, micro: 1, dtype: bf16, sgd: true, chain: perBlock, away: away{params: true}, note: other},
	}},
	{"the baseline's training (float32, Adam, 64 images an update) in less", []rung{
		{name: "fp32-micro-batch-1", what: "one image at a time, gradients accumulated", batch: 64, micro: 1},
		{name: "fp32-per-block", what: "and backward computes each block again", batch: 64, micro: 1, chain: perBlock},
		{name: "fp32-moments-on-disk", what: "and Adam's moments pass through tile by tile", batch: 64, micro: 1, chain: perBlock, away: away{state: true}},
		{name: "fp32-on-disk-by-8", what: "and parameters, gradients and the blocks' inputs are on disk; 8 images at a time, so that they move less often",
			batch: 64, micro: 8, chain: perBlock, away: away{true, true, true}},
		{name: "fp32-on-disk", what: "the same with one image at a time", batch: 64, micro: 1, chain: perBlock, away: away{true, true, true}},
	}},
}

// all are the rungs of all tables in order.
func all() (list []rung) {
	for _, t := range tables {
		list = append(list, t.rungs...)
	}
	return list
}

func (r rung) String() string { return r.name }
