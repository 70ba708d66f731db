package row

import (
	"fmt"

	"github.com/thimble-ml/thimble/memory"
)

// Row holds the figures of one configuration. Its JSON has exactly the keys below, each present, null where a figure is
// missing. An example adds figures by embedding Row in a struct of its own (no method here gets in the way of that);
// figures that can be missing or not finite are Numbers there as well.
type Row struct {
	Name string `json:"name"`

	PredictedPeak *int64 `json:"predicted_peak_bytes"` // live bytes at the peak, by the dry run
	MeasuredPeak  *int64 `json:"measured_peak_bytes"`  // the same, of the real run; nil if there was none
	Arena         *int64 `json:"arena_bytes"`          // peak of the arena: what must fit
	RSS           *int64 `json:"rss_bytes"`            // growth of a fresh process's resident set; nil where it is unknown

	ByKind ByKind `json:"by_kind"` // the peak in its parts: the measured one, without it the predicted one

	StepMS   Number `json:"step_ms"`  // milliseconds a step
	Loss     Number `json:"loss"`     // of the last step
	Accuracy Number `json:"accuracy"` // on the test set, 0 to 1
	Steps    int    `json:"steps"`    // optimizer steps that were run

	// Note says what sets the row apart, such as "other training". The table marks the row with it; JSON does not have
	// it, and so a child's does not reach its parent.
	Note string `json:"-"`
}

// Predict sets the predicted peak from a dry run's figures, in bytes. As long as there is no measured peak, arena and
// kinds are the dry run's too.
func (r *Row) Predict(peak, arena int64, byKind [memory.NumKinds]int64) {
	r.PredictedPeak = &peak
	if r.MeasuredPeak == nil {
		r.Arena, r.ByKind = &arena, byKind
	}
}

// Measure sets measured peak, arena and kinds from the statistics of the device after the run.
func (r *Row) Measure(s memory.Stats) {
	r.MeasuredPeak, r.Arena, r.ByKind = &s.Peak, &s.ArenaPeak, s.PeakByKind
}

// Peak returns the measured peak in bytes, or the predicted one where nothing was measured, or 0.
func (r *Row) Peak() int64 {
	switch {
	case r.MeasuredPeak != nil:
		return *r.MeasuredPeak
	case r.PredictedPeak != nil:
		return *r.PredictedPeak
	}
	return 0
}

// Check returns an error if the figures cannot be true together: there is no peak, the kinds do not add up to it, the
// arena is smaller, or a figure is out of its range.
func (r *Row) Check() error {
	acc, hasAcc := r.Accuracy.Value()
	ms, _ := r.StepMS.Value()
	switch peak := r.Peak(); {
	case r.Name == "":
		return fmt.Errorf("row: no name")
	case r.MeasuredPeak == nil && r.PredictedPeak == nil:
		return fmt.Errorf("row: %q: want a measured or a predicted peak", r.Name)
	case r.ByKind.Sum() != peak:
		return fmt.Errorf("row: %q: kinds add up to %d: want the peak, %d", r.Name, r.ByKind.Sum(), peak)
	case r.ByKind.negative() || negative(r.PredictedPeak) || negative(r.RSS) || r.Steps < 0 || ms < 0:
		return fmt.Errorf("row: %q: a negative figure", r.Name)
	case r.Arena != nil && *r.Arena < peak:
		return fmt.Errorf("row: %q: arena %d: want at least the peak, %d", r.Name, *r.Arena, peak)
	case hasAcc && (acc < 0 || acc > 1):
		return fmt.Errorf("row: %q: accuracy %g: want 0 to 1", r.Name, acc)
	}
	return nil
}

func negative(p *int64) bool { return p != nil && *p < 0 }
