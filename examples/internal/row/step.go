package row

import (
	"cmp"
	"slices"
	"time"

	"github.com/thimble-ml/thimble/autograd"
)

// PredictStep runs a training step dry and takes the predicted peak from it: see [Row.PredictPlan]. The device's peak begins
// anew, to be measured from the first real step on.
func (r *Row) PredictStep(sess *autograd.Session, step func(*autograd.Scope) error) error {
	plan, err := sess.Plan(step, autograd.PlanConfig{})
	if err != nil {
		return err
	}
	r.PredictPlan(plan)
	sess.Device().ResetPeak()
	return nil
}

// PredictPlan is [Row.Predict] from a dry run: the largest peak and arena, and the kinds of the step that has the peak.
func (r *Row) PredictPlan(p *autograd.Plan) {
	worst := slices.MaxFunc(p.Steps, func(a, b autograd.StepPlan) int { return cmp.Compare(a.Peak, b.Peak) })
	r.Predict(p.Peak(), p.Arena(), worst.ByKind)
}

// Times are how long steps took.
type Times []time.Duration

// Since adds the time since start.
func (t *Times) Since(start time.Time) { *t = append(*t, time.Since(start)) }

// Median returns the median in milliseconds, missing if there are none.
func (t Times) Median() Number {
	if len(t) == 0 {
		return Number{}
	}
	return ms(slices.Sorted(slices.Values(t))[len(t)/2])
}

// Min returns the least in milliseconds, missing if there are none.
func (t Times) Min() Number {
	if len(t) == 0 {
		return Number{}
	}
	return ms(slices.Min(t))
}

func ms(d time.Duration) Number { return Num(float64(d.Microseconds()) / 1e3) }
