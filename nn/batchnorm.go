package nn

import (
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// BatchNorm brings each channel of x [N C ...] to mean 0 and variance 1 over the batch, then scales and shifts it (Ioffe
// and Szegedy, 2015), torch.nn.BatchNorm1d to 3d. Under Eval it uses the running statistics instead, which training
// moves: with micro-batches each counts for itself, so accumulation is not the same as the large batch; GroupNorm is.
type BatchNorm struct {
	Weight, Bias            *autograd.Param // [C]
	RunningMean, RunningVar *tensor.Tensor  // [C], buffers, counted as Other; the session's Close gives them back. Of half types Float32

	Eps      float64
	Momentum float64 // the share of a batch in the running statistics
}

// BatchNormConfig of a BatchNorm.
type BatchNormConfig struct {
	Eps      float64 // 0: 1e-5
	Momentum float64 // 0: 0.1
	DType    tensor.DType
}

// NewBatchNorm makes a layer for so many channels, at most one config given.
func NewBatchNorm(sess *autograd.Session, channels int, cfg ...BatchNormConfig) (*BatchNorm, error) {
	k := newMaker("NewBatchNorm", sess)
	c := config(k, cfg)
	if c.Eps == 0 {
		c.Eps = 1e-5
	}
	if c.Momentum == 0 {
		c.Momentum = 0.1
	}
	k.positive("channels", channels)
	k.probability("momentum", c.Momentum)
	if !(c.Eps > 0) || math.IsInf(c.Eps, 0) {
		k.failf("eps %v: want a positive number, or 0 for 1e-5", c.Eps)
	}
	l := &BatchNorm{Eps: c.Eps, Momentum: c.Momentum}
	l.Weight = k.param("weight", Constant(1), c.DType, channels)
	l.Bias = k.param("bias", nil, c.DType, channels)
	running := c.DType
	if isHalf(running) {
		running = tensor.Float32
	}
	l.RunningMean = k.buffer("running_mean", 0, running, channels)
	l.RunningVar = k.buffer("running_var", 1, running, channels)
	if err := k.end(); err != nil {
		return nil, err
	}
	return l, nil
}

// Forward takes x [N C ...] and gives the same shape.
func (l *BatchNorm) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	if !s.Training() {
		if isHalf(x.DType()) { // beside statistics in Float32
			s = s.WithAutocast(autograd.CastPolicy{Low: x.DType()})
		}
		return ops.BatchNormEval(s, x, s.Input(l.RunningMean), s.Input(l.RunningVar), value(l.Weight), value(l.Bias), l.Eps)
	}
	return s.Do("batchnorm", func(s *autograd.Scope) *autograd.Value {
		if !s.Modes().Replay { // before x is read for the last time, so that the copies do not outlast its use
			s.JournalTensor(l.RunningMean)
			s.JournalTensor(l.RunningVar)
		}
		y, stats := ops.BatchNorm(s, x, value(l.Weight), value(l.Bias), l.Eps)
		if dt := l.RunningMean.DType(); stats.Mean.DType() != dt {
			stats.Mean, stats.Variance = ops.Cast(s, stats.Mean, dt), ops.Cast(s, stats.Variance, dt)
		}
		ops.UpdateRunning(s, l.RunningMean, l.RunningVar, stats, l.Momentum)
		return y
	})
}

// GroupNorm brings each group of channels of each sample to mean 0 and variance 1, then scales and shifts each channel (Wu
// and He, 2018), torch.nn.GroupNorm. It does not look across the batch.
type GroupNorm struct {
	Weight, Bias *autograd.Param // [C]
	Groups       int
	Eps          float64
}

// GroupNormConfig of a GroupNorm.
type GroupNormConfig struct {
	Eps   float64 // 0: 1e-5
	DType tensor.DType
}

// NewGroupNorm makes a layer for so many channels in groups, which divide them, at most one config given.
func NewGroupNorm(sess *autograd.Session, groups, channels int, cfg ...GroupNormConfig) (*GroupNorm, error) {
	k := newMaker("NewGroupNorm", sess)
	c := config(k, cfg)
	if c.Eps == 0 {
		c.Eps = 1e-5
	}
	k.positive("groups", groups)
	k.positive("channels", channels)
	if !(c.Eps > 0) || math.IsInf(c.Eps, 0) {
		k.failf("eps %v: want a positive number, or 0 for 1e-5", c.Eps)
	}
	if k.err == nil && channels%groups != 0 {
		k.failf("%d groups of %d channels: want groups that divide them", groups, channels)
	}
	l := &GroupNorm{Groups: groups, Eps: c.Eps}
	l.Weight = k.param("weight", Constant(1), c.DType, channels)
	l.Bias = k.param("bias", nil, c.DType, channels)
	if err := k.end(); err != nil {
		return nil, err
	}
	return l, nil
}

// Forward takes x [N C ...] and gives the same shape.
func (l *GroupNorm) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return ops.GroupNorm(s, x, l.Groups, value(l.Weight), value(l.Bias), l.Eps)
}
