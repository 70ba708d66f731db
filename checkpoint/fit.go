package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/thimble-ml/thimble/autograd"
)

// Fitted is a schedule made for a byte budget.
type Fitted struct {
	Schedule Schedule
	Estimate Estimate
	Plain    Estimate // of the chain without recomputation
}

// For gives the schedule, as Chain wants it.
//
//	model.Chain = checkpoint.Chain(fit.For)
func (f *Fitted) For(int) Schedule { return f.Schedule }

// BudgetError says that no schedule fits.
type BudgetError struct {
	Budget   int64
	Smallest Fitted // the schedule that needs least
}

// Error gives the budget and the smallest one that could be met.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("checkpoint: Fit: a budget of %d bytes for %d blocks: no schedule takes less than %d, which %s does", e.Budget, e.Smallest.Schedule.Len(), e.Smallest.Estimate.Peak, e.Smallest.Schedule)
}

// Fit measures the chain and gives the fastest schedule whose bytes stay within the budget; if there is none, a
// *BudgetError with the smallest budget that one meets. The budget is for what the chain itself adds while it runs, forward
// and backward: all that lives no longer than a step, between what lives when the chain begins and the peak. Parameters and
// their gradients are not in it, nor what comes before and after the chain.
func Fit(sess *autograd.Session, ln Line, budget int64) (*Fitted, error) {
	costs, err := Measure(sess, ln)
	if err != nil {
		return nil, err
	}
	return Solve(costs, budget)
}

// Solve is Fit for costs that are known: equal costs give equal schedules. It is the dynamic program of Beaumont et al., "Optimal checkpointing for
// heterogeneous chains: how to train deep neural networks with limited memory" (2019, arXiv:1911.13214), with a menu of three
// for each block: kept whole, under DearOnly, or within a region of which the input is kept. Instead of one optimum for each
// of many rounded budgets it has, for each interval of blocks, the whole front of bytes against time, to the byte; a front of
// more than 64 points is thinned by what differs least in time.
func Solve(costs []Cost, budget int64) (*Fitted, error) {
	if len(costs) == 0 {
		return nil, fmt.Errorf("checkpoint: Fit: the chain has no blocks")
	}
	p := newProgram(costs, budget)
	p.fill()
	root := p.top[0]
	fitted := func(pt int) Fitted {
		sc := p.schedule(0, len(costs)-1, true, pt)
		return Fitted{Schedule: sc, Estimate: sc.Estimate(costs), Plain: All(len(costs)).Estimate(costs)}
	}
	n := len(root)
	for n > 0 && root[n-1].mem > budget {
		n--
	}
	if n == 0 {
		return nil, &BudgetError{Budget: budget, Smallest: fitted(0)}
	}
	f := fitted(n - 1)
	return &f, nil
}

// point is a schedule of an interval of blocks: bytes beside the interval's input, and time.
type point struct {
	mem    int64
	time   time.Duration
	choice int32 // keepAll, keepDear, or the block where the second part begins: a region goes before it
	first  int32 // point of the region's interval
	rest   int32 // point of the blocks behind
}

const (
	keepAll  = -1
	keepDear = -2
)

// program has the front of each interval: of blocks lo to hi within a region, where the gradient behind hi is alive all
// the time, and of blocks lo to the end in the first run, where it is not.
type program struct {
	costs  []Cost
	budget int64
	in     [][][]point
	top    [][]point
	cands  []point    // room for the points of one choice
	fronts [2][]point // and for the front that grows
}

func newProgram(costs []Cost, budget int64) *program {
	n := len(costs)
	p := &program{costs: costs, budget: budget, in: make([][][]point, n), top: make([][]point, n)}
	for lo := range p.in {
		p.in[lo] = make([][]point, n)
	}
	return p
}

// fill finds the fronts, short intervals first.
func (p *program) fill() {
	n := len(p.costs)
	for size := 1; size <= n; size++ {
		for lo := 0; lo+size <= n; lo++ {
			hi := lo + size - 1
			p.in[lo][hi] = p.front(lo, hi, false)
			if hi == n-1 {
				p.top[lo] = p.front(lo, hi, true)
			}
		}
	}
}

// rest is the front of the blocks from k to hi that follow others in an interval.
func (p *program) rest(k, hi int, top bool) []point {
	if top {
		return p.top[k]
	}
	return p.in[k][hi]
}

// front finds the front of blocks lo to hi.
func (p *program) front(lo, hi int, top bool) []point {
	grad := p.costs[hi].Out
	if top {
		grad = 0
	}
	c := &p.costs[lo]
	f := p.fronts[0][:0]
	if again := c.Region.Backward; lo == hi && !top { // the second run ends within the block
		f = append(f, point{mem: again.Peak, time: again.Time, choice: keepAll})
	} else {
		f = p.merge(f, p.keep(lo, hi, top, &c.All, keepAll, grad))
	}
	f = p.merge(f, p.keep(lo, hi, top, &c.Dear, keepDear, grad))
	var forward int64 // peak of the region's first run
	var spent time.Duration
	for k := lo + 1; k <= hi; k++ {
		held := int64(0)
		if k-1 > lo {
			held = p.costs[k-1].In
		}
		d := p.costs[k-1].Region.Forward
		forward, spent = max(forward, held+d.Peak+grad), spent+d.Time
		if !p.beaten(f, lo, k, hi, top, forward, spent) {
			f = p.merge(f, p.split(lo, k, hi, top, forward, spent))
		}
	}
	return thin(slices.Clone(f))
}

// beaten tells whether no point of a split can be on the front.
func (p *program) beaten(f []point, lo, k, hi int, top bool, forward int64, spent time.Duration) bool {
	first, rest := p.in[lo][k-1], p.rest(k, hi, top)
	mem := max(forward, first[0].mem, p.costs[k].In+rest[0].mem)
	took := spent + first[len(first)-1].time + rest[len(rest)-1].time
	i, _ := slices.BinarySearchFunc(f, mem+1, func(q point, m int64) int { return cmp.Compare(q.mem, m) })
	return i > 0 && f[i-1].time <= took
}

// keep gives the points where block lo is kept in the way of m.
func (p *program) keep(lo, hi int, top bool, m *Menu, choice int32, grad int64) []point {
	own := max(m.Forward.Peak+grad, m.Backward.Peak)
	took := m.Forward.Time + m.Backward.Time
	p.cands = p.cands[:0]
	if lo == hi {
		return append(p.cands, point{mem: own, time: took, choice: choice})
	}
	for i, r := range p.rest(lo+1, hi, top) {
		p.cands = append(p.cands, point{mem: max(own, m.Keeps+p.costs[lo+1].In+r.mem), time: took + r.time, choice: choice, rest: int32(i)})
	}
	return p.cands
}

// split gives the points where blocks lo to k-1 are a region.
func (p *program) split(lo, k, hi int, top bool, forward int64, spent time.Duration) []point {
	first, rest := p.in[lo][k-1], p.rest(k, hi, top)
	p.cands = p.cands[:0]
	held := p.costs[k].In
	i, j := 0, 0 // the fastest of each that fit
	mem := max(forward, first[0].mem, held+rest[0].mem)
	for {
		for i+1 < len(first) && first[i+1].mem <= mem {
			i++
		}
		for j+1 < len(rest) && held+rest[j+1].mem <= mem {
			j++
		}
		p.cands = append(p.cands, point{mem: mem, time: spent + first[i].time + rest[j].time, choice: int32(k), first: int32(i), rest: int32(j)})
		switch {
		case i+1 < len(first) && (j+1 == len(rest) || first[i+1].mem <= held+rest[j+1].mem):
			mem = first[i+1].mem
		case j+1 < len(rest):
			mem = held + rest[j+1].mem
		default:
			return p.cands
		}
	}
}

// merge gives the front of two lists, each with bytes rising: a, which lies in one of the two rooms, and b. It lies in the
// other room.
func (p *program) merge(a, b []point) []point {
	p.fronts[0], p.fronts[1] = p.fronts[1], a
	out := p.fronts[0][:0]
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		var q *point
		if j == len(b) || i < len(a) && (a[i].mem < b[j].mem || a[i].mem == b[j].mem && a[i].time <= b[j].time) {
			q = &a[i]
			i++
		} else {
			q = &b[j]
			j++
		}
		n := len(out)
		if n > 0 && q.mem > p.budget { // only the smallest may be too large: it tells what would be enough
			break
		}
		if n == 0 || q.time < out[n-1].time {
			out = append(out, *q)
		}
	}
	p.fronts[0] = out
	return out
}

// most is how many points a front keeps.
const most = 64

// thin takes points out of a front that has too many: those that are hardly faster than the one before. The smallest and
// the fastest stay.
func thin(f []point) []point {
	for gain := 1e-4; len(f) > most; gain *= 2 {
		last := f[len(f)-1]
		kept := f[:1]
		for _, q := range f[1 : len(f)-1] {
			if float64(q.time) < float64(kept[len(kept)-1].time)*(1-gain) {
				kept = append(kept, q)
			}
		}
		f = append(kept, last)
	}
	return f
}

// schedule writes point pt of the interval as a schedule.
func (p *program) schedule(lo, hi int, top bool, pt int) Schedule {
	f := p.in[lo][hi]
	if top {
		f = p.top[lo]
	}
	var st Step
	next := lo + 1
	switch q := f[pt]; q.choice {
	case keepAll:
		st = Step{Blocks: 1}
	case keepDear:
		st = Step{Inner: Schedule{{Blocks: 1}}, Policy: DearOnly}
	default:
		next = int(q.choice)
		st = region(p.schedule(lo, next-1, false, int(q.first)))
	}
	sc := Schedule{st}
	if next > hi {
		return sc
	}
	rest := p.schedule(next, hi, top, int(f[pt].rest))
	if st.Blocks > 0 && rest[0].Blocks > 0 { // one step for blocks that are kept
		rest[0].Blocks++
		return rest
	}
	return append(sc, rest...)
}
