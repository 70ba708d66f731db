package ops

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// The running statistics of batch norm:
//
//	running = (1 - momentum) running + momentum batch
//
// with the batch's mean and unbiased variance. Not an op: nothing of it is recorded.

// UpdateRunning moves the running mean and variance, [C] and contiguous, which the caller owns, towards those of a batch.
// momentum, from 0 to 1, is the share of the batch, as in torch (0.1 there by default; 1/k at the k-th batch makes the
// plain average, torch's momentum=None).
//
//	y, batch := ops.BatchNorm(s, x, weight, bias, eps)
//	ops.UpdateRunning(s, mean, variance, batch, momentum)
//	s.Free(batch.Mean, batch.Variance)
//
// The update is part of the step: if the step fails, however late, mean and variance are put back (see
// autograd.Scope.JournalTensor, which takes a copy until the step ends), and a dry run does not change them. Each call
// updates once, so several batches in one step (gradient accumulation) count one after the other, as in torch. Two kinds
// of calls do nothing: those in a replay, since recomputation runs the same batch again, and those for a batch without
// numbers, which says nothing. A wrong dtype, shape or momentum is an *autograd.Error like an op's.
//
// What has read mean or variance in this step and keeps it for backward, as [BatchNormEval] does, refuses to go on, as after
// any write in place.
func UpdateRunning(s *autograd.Scope, mean, variance *tensor.Tensor, batch BatchStats, momentum float64) {
	site := memory.Site{Op: "batch_norm_running", Scope: s.Path()}
	in := []tensor.Spec{mean.Spec(), variance.Spec(), batch.Mean.Spec(), batch.Variance.Spec()}
	if err := checkRunning(in, mean, variance, momentum); err != nil {
		panic(&autograd.Error{Op: site.Op, Scope: site.Scope, In: in, Err: err})
	}
	if batch.Count == 0 || s.Modes().Replay {
		return
	}
	s.JournalTensor(mean)
	s.JournalTensor(variance)
	bm, bv := batch.Mean.Tensor(), batch.Variance.Tensor()
	s.Run(site, autograd.Work{}, func(*autograd.Run) {
		byFloat(mean.DType(), moveRunning[float32], moveRunning[float64])(mean, bm, momentum)
		byFloat(mean.DType(), moveRunning[float32], moveRunning[float64])(variance, bv, momentum)
	})
	mean.Bump()
	variance.Bump()
}

func checkRunning(in []tensor.Spec, mean, variance *tensor.Tensor, momentum float64) error {
	switch {
	case !(momentum >= 0 && momentum <= 1):
		return fmt.Errorf("want a momentum from 0 to 1, got %v", momentum)
	case !mean.IsContiguous() || !variance.IsContiguous():
		return errors.New("want running statistics without gaps")
	}
	for _, s := range in[1:] {
		if !s.Equal(in[0]) || s.Rank() != 1 {
			return errors.New("want running mean, running variance and those of the batch [C], all of one dtype")
		}
	}
	return wantFloats(in...)
}

func moveRunning[T kernel.Float](running, batch *tensor.Tensor, momentum float64) {
	kernel.Running(tensor.Data[T](running), tensor.Data[T](batch), momentum)
}
