package checkpoint

import "time"

// Estimate is what a schedule takes, by the costs of its blocks. Bytes count beside the chain's input, as in Cost.
type Estimate struct {
	Peak        int64         // most bytes that live no longer than a step, parameters' gradients excluded
	Activations int64         // most bytes of activations; what comes before and after the chain is not in it
	Time        time.Duration // of the chain, forward, second runs and backward
}

// Estimate adds up what sc takes. Regions have no policy but DearOnly, which may stand on single blocks only.
func (sc Schedule) Estimate(costs []Cost) Estimate {
	var e Estimate
	sc.estimate(&e, costs, 0, 0, 0, 0)
	return e
}

// dear tells whether st is a single block under a policy.
func (st Step) dear() bool { return st.Inner != nil && st.Policy != nil }

// estimate runs sc from block at on. held bytes are alive beside the input of that block, act of them activations, and grad
// is the gradient of the last block's result while sc runs again; in the first run it is 0.
func (sc Schedule) estimate(e *Estimate, costs []Cost, at int, held, act, grad int64) {
	type state struct {
		at        int
		held, act int64
	}
	var states []state // when each step begins
	see := func(p Phase, held, act int64) {
		e.Peak, e.Activations = max(e.Peak, held+p.Peak), max(e.Activations, act+p.Activations)
		e.Time += p.Time
	}
	first, end := at, at+sc.Len()-1
	for _, st := range sc {
		n := 1
		if st.Inner != nil {
			n = st.len()
		}
		for range max(st.Blocks, 1) {
			if at > first {
				held, act = held+costs[at].In, act+costs[at].In
			}
			states = append(states, state{at, held, act})
			keeps := int64(0)
			switch {
			case st.dear():
				see(costs[at].Dear.Forward, held+grad, act)
				keeps = costs[at].Dear.Keeps
			case st.Inner != nil:
				for k := range n {
					in := int64(0)
					if k > 0 {
						in = costs[at+k].In
					}
					see(costs[at+k].Region.Forward, held+grad+in, act)
				}
			case grad > 0 && at == end: // the second run ends within this block: see below
			default:
				see(costs[at].All.Forward, held+grad, act)
				keeps = costs[at].All.Keeps
			}
			held, act, at = held+keeps, act+keeps, at+n
		}
	}
	for i := len(sc) - 1; i >= 0; i-- {
		for range max(sc[i].Blocks, 1) {
			b := states[len(states)-1]
			states = states[:len(states)-1]
			switch {
			case sc[i].dear():
				see(costs[b.at].Dear.Backward, b.held, b.act)
			case sc[i].Inner != nil:
				last := b.at + sc[i].len() - 1
				sc[i].Inner.estimate(e, costs, b.at, b.held, b.act, costs[last].Out)
			case grad > 0 && b.at == end:
				see(costs[b.at].Region.Backward, b.held, b.act)
			default:
				see(costs[b.at].All.Backward, b.held, b.act)
			}
		}
	}
}
