package golden

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// pair is an attribute that is one number or two, zero if it is not there.
func (c *opCase) pair(name string) (p [2]int) {
	if two := c.ints(name); two != nil {
		return [2]int(two)
	}
	return ops.Both(c.int(name, 0))
}

func (c *opCase) pool() ops.Pool2DConfig {
	return ops.Pool2DConfig{Kernel: c.pair("kernel"), Stride: c.pair("stride"), Padding: c.pair("padding")}
}

// imageCalls are convolution, pools, batch norm and group norm.
var imageCalls = map[string]call{
	"conv2d": func(s *autograd.Scope, c *opCase, in []value) value {
		in = append(in, nil)
		return ops.Conv2D(s, in[0], in[1], in[2], ops.Conv2DConfig{
			Stride: c.pair("stride"), Padding: c.pair("padding"), Dilation: c.pair("dilation"), Groups: c.int("groups", 1),
		})
	},
	"max_pool2d": func(s *autograd.Scope, c *opCase, in []value) value { return ops.MaxPool2D(s, in[0], c.pool()) },
	"avg_pool2d": func(s *autograd.Scope, c *opCase, in []value) value { return ops.AvgPool2D(s, in[0], c.pool()) },
	"adaptive_avg_pool2d": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.AdaptiveAvgPool2D(s, in[0], c.pair("output"))
	},
	"batch_norm_train": func(s *autograd.Scope, c *opCase, in []value) value {
		y, _ := ops.BatchNorm(s, in[0], in[1], in[2], c.float("eps", 1e-5))
		return y
	},
	"batch_norm_eval": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.BatchNormEval(s, in[0], in[3], in[4], in[1], in[2], c.float("eps", 1e-5))
	},
	"batch_norm_running": batchNormRunning,
	"group_norm": func(s *autograd.Scope, c *opCase, in []value) value {
		return ops.GroupNorm(s, in[0], c.int("groups", 1), in[1], in[2], c.float("eps", 1e-5))
	},
}

// batchNormRunning gives running mean and variance, which start at 0 and 1, after one batch.
func batchNormRunning(s *autograd.Scope, c *opCase, in []value) value {
	channels := in[0].Dim(1)
	both, err := tensor.Zeros(s.Device(), memory.Other, site, tensor.Of(in[0].DType(), 2, channels))
	if err != nil {
		panic(err)
	}
	s.OnClose(both.Release)
	mean, err := both.Select(0, 0)
	if err != nil {
		panic(err)
	}
	variance, err := both.Select(0, 1)
	if err != nil {
		panic(err)
	}
	if err := tensor.Fill(&variance, 1); err != nil {
		panic(err)
	}
	_, batch := ops.BatchNorm(s, in[0], nil, nil, c.float("eps", 1e-5))
	ops.UpdateRunning(s, &mean, &variance, batch, c.float("momentum", 0.1))
	return s.Input(both)
}
