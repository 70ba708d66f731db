package ops

import (
	"math"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// reductionEntries are the reductions over dimensions, cumsum, softmax and the losses; cross-entropy is among
// basicEntries.
func reductionEntries() []Entry {
	x, y := []EntryIn{{Name: "x"}}, []EntryOut{{Name: "y"}}
	fixed := []EntryIn{{"x", true}} // no gradient
	xt := []EntryIn{{Name: "x"}, {Name: "target"}}
	loss := []EntryOut{{Name: "loss"}}
	choice := []EntryOut{{Name: "y"}, {"mask", "1 bit an element"}, {"ties", "1 number a result"}}
	mean := []EntryOut{{Name: "y"}, {"mean", "1 number a result"}}
	norm := func(p float64) reduceOp { return reduceOp{kind: normOf(p), p: p} }
	return []Entry{
		{"Sum", reduceOp{kind: kernel.ReduceSum}, x, y},
		{"Mean", reduceOp{kind: kernel.ReduceMean}, x, y},
		{"AMax", reduceOp{kind: kernel.ReduceMax}, x, choice},
		{"AMin", reduceOp{kind: kernel.ReduceMin}, x, choice},
		{"ArgMax", reduceOp{kind: kernel.ReduceArgMax}, fixed, y},
		{"ArgMin", reduceOp{kind: kernel.ReduceArgMin}, fixed, y},
		{"Var", reduceOp{kind: kernel.ReduceVar}, x, mean},
		{"Std", reduceOp{kind: kernel.ReduceStd}, x, mean},
		{"Norm", norm(2), x, y},
		{"Norm, p = 1", norm(1), x, y},
		{"Norm, p = Inf", norm(math.Inf(1)), x, []EntryOut{{Name: "y"}, {"ties", "1 number a result"}}},
		{"LogSumExp", reduceOp{kind: kernel.ReduceLogSumExp}, x, y},
		{"CumSum", cumSumOp{}, x, y},
		{"Softmax", softmaxOp{}, x, y},
		{"LogSoftmax", softmaxOp{log: true}, x, y},
		{"MSELoss", lossOp{kind: kernel.LossSquared}, xt, loss},
		{"L1Loss", lossOp{kind: kernel.LossAbsolute}, xt, loss},
		{"SmoothL1Loss", lossOp{kind: kernel.LossSmooth}, xt, loss},
		{"BCEWithLogits", lossOp{kind: kernel.LossLogistic}, xt, loss},
		{"KLDiv", lossOp{kind: kernel.LossDivergence}, xt, loss},
		{"CrossEntropy, with weights", crossEntropyOp{weighted: true},
			[]EntryIn{{Name: "logits"}, {"targets", true}, {"class weights", true}}, []EntryOut{{Name: "loss"}, {"log-sum-exp", "1 number a row"}}},
	}
}
