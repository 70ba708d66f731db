package golden

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
)

// reductionCalls are those of reductions, softmax and losses.
var reductionCalls = map[string]call{
	"sum":  func(s *autograd.Scope, c *opCase, in []value) value { return ops.Sum(s, in[0], c.over()) },
	"mean": func(s *autograd.Scope, c *opCase, in []value) value { return ops.Mean(s, in[0], c.over()) },
	"amax": func(s *autograd.Scope, c *opCase, in []value) value { return ops.AMax(s, in[0], c.over()) },
	"amin": func(s *autograd.Scope, c *opCase, in []value) value { return ops.AMin(s, in[0], c.over()) },
	"argmax": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.ArgMax(s, in[0], ops.Over(c.int("dim", 0)))
	},
	"var": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.Var(s, in[0], c.int("correction", 1), c.over())
	},
	"std": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.Std(s, in[0], c.int("correction", 1), c.over())
	},
	"norm": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.Norm(s, in[0], c.float("p", 2), c.over())
	},
	"logsumexp": func(s *autograd.Scope, c *opCase, in []value) value { return ops.LogSumExp(s, in[0], c.over()) },
	"cumsum":    func(s *autograd.Scope, c *opCase, in []value) value { return ops.CumSum(s, in[0], c.int("dim", 0)) },
	"softmax":   func(s *autograd.Scope, c *opCase, in []value) value { return ops.Softmax(s, in[0], c.int("dim", -1)) },
	"log_softmax": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.LogSoftmax(s, in[0], c.int("dim", -1))
	},
	"mse_loss": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.MSELoss(s, in[0], in[1], c.reduction())
	},
	"l1_loss": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.L1Loss(s, in[0], in[1], c.reduction())
	},
	"smooth_l1_loss": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.SmoothL1Loss(s, in[0], in[1], c.float("beta", 1), c.reduction())
	},
	"bce_with_logits": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.BCEWithLogits(s, in[0], in[1], c.reduction())
	},
	// The case says that the input goes through log_softmax and the target through softmax; it is of batchmean.
	"kl_div": func(s *autograd.Scope, _ *opCase, in []value) value {
		return ops.KLDiv(s, ops.LogSoftmax(s, in[0], -1), ops.Softmax(s, in[1], -1), ops.ReduceBatchMean)
	},
	"cross_entropy": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.CrossEntropy(s, in[0], in[1], c.lossOptions(in)...)
	},
}

// lossOptions are those of a case of cross-entropy.
func (c *opCase) lossOptions(in []value) []ops.CrossEntropyOption {
	opts := []ops.CrossEntropyOption{
		c.reduction(), ops.IgnoreTarget(c.int("ignore_index", ops.IgnoreIndex)), ops.LabelSmoothing(c.float("label_smoothing", 0)),
	}
	if len(in) > 2 {
		opts = append(opts, ops.ClassWeights(in[2]))
	}
	return opts
}

// over is the dimensions of a case; none are all.
func (c *opCase) over() ops.Dims {
	d := ops.Over(c.ints("dims")...)
	if c.bool("keepdim") {
		d = d.Keep()
	}
	return d
}

func (c *opCase) reduction() ops.Reduction {
	for _, r := range []ops.Reduction{ops.ReduceSum, ops.ReduceNone} {
		if c.string("reduction") == r.String() {
			return r
		}
	}
	return ops.ReduceMean
}
