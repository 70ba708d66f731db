package amp

import (
	"errors"
	"fmt"
)

// GradScalerState is what a GradScaler must know to go on, torch's state_dict. That of a disabled one is empty.
type GradScalerState struct {
	Scale          float64
	GrowthFactor   float64
	BackoffFactor  float64
	GrowthInterval int
	Tracker        int // updates without overflow since Scale changed
	Skips          int // windows in a row with one
	Skipped        int // updates in all that were skipped
	// Unfinished says that an optimizer was unscaled, clipped or stepped, and Update not called yet. Such a state is not
	// loaded.
	Unfinished bool
}

// State is where the scaler stands. Take it after Update; in a window of micro-batches it may be taken between those.
func (g *GradScaler) State() GradScalerState {
	if g.cfg.Disabled {
		return GradScalerState{}
	}
	return GradScalerState{
		Scale: g.scale, GrowthFactor: g.cfg.GrowthFactor, BackoffFactor: g.cfg.BackoffFactor, GrowthInterval: g.cfg.GrowthInterval,
		Tracker: g.tracker, Skips: g.skips, Skipped: g.skipped, Unfinished: len(g.turns) > 0,
	}
}

// Load goes on from st, whose factors and interval win over the constructor's. MinScale and MaxSkips stay. After an error
// nothing has changed. A disabled scaler takes anything and stays disabled; an enabled one refuses the empty state of a
// disabled one.
func (g *GradScaler) Load(st GradScalerState) error {
	if g.cfg.Disabled {
		return nil
	}
	cfg := g.cfg
	cfg.GrowthFactor, cfg.BackoffFactor, cfg.GrowthInterval = st.GrowthFactor, st.BackoffFactor, st.GrowthInterval
	var err error
	switch {
	case st == GradScalerState{}:
		err = errors.New("the state is empty, as that of a disabled scaler is: want one of an enabled scaler, or GradScalerConfig.Disabled")
	case st.Unfinished:
		err = errors.New("the state was taken in the middle of an update: take it after Update")
	case st.Tracker < 0 || st.Tracker >= max(1, st.GrowthInterval):
		err = fmt.Errorf("a Tracker of %d: want 0 to %d, less than GrowthInterval", st.Tracker, st.GrowthInterval-1)
	case st.Skips < 0 || st.Skipped < 0:
		err = fmt.Errorf("a state of %d Skips and %d Skipped: want 0 or more", st.Skips, st.Skipped)
	case float64(float32(st.Scale)) != st.Scale:
		err = fmt.Errorf("the scale is %v, which is no float32", st.Scale)
	default:
		err = cfg.check(st.Scale)
	}
	if err != nil {
		return fmt.Errorf("amp: GradScaler.Load: %w", err)
	}
	g.cfg = cfg
	g.mark = mark{scale: st.Scale, tracker: st.Tracker, skips: st.Skips, skipped: st.Skipped, last: g.last}
	return nil
}
