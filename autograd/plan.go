package autograd

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/memory"
)

// PlanConfig of a dry run.
type PlanConfig struct {
	// Steps is how many times the function runs; 0: 2, since the first step makes gradients that the second finds.
	Steps int
	// Events keeps the list of memory events of each step; the hash is kept always.
	Events bool
	// Place finds addresses for the buffers of each step from their lifetimes (memory.Place), for Session.Follow.
	Place bool
}

// Plan is what a dry run found.
type Plan struct {
	Steps []StepPlan
	// Reads are the sites at which the function reads a value (Item), in order: where the real run may take another way
	// than the dry one, which read 0.
	Reads []memory.Site
	// InPlace lists, for the last step, which buffers in-place operations and gradients written over what died did without,
	// the most bytes first.
	InPlace []InPlace
	// Slack lists, for the last step, values that their scopes held past their last use while more was allocated.
	Slack []Slack
}

// StepPlan is one step of a Plan. All figures are those that the real step will show, to the byte.
type StepPlan struct {
	Peak    int64 // most live bytes at once
	Arena   int64 // highest end of the arena: what a limit must allow
	ByKind  [memory.NumKinds]int64
	After   int64  // live bytes when the step has ended
	Hash    uint64 // over all events, see memory.Stats
	Allocs  uint64
	Events  []memory.Event // if PlanConfig.Events
	InPlace int64          // bytes that were written over instead of allocated, see Plan.InPlace
	OverBy  int64          // bytes by which Arena exceeds the device's limit; 0 if it fits

	Placement []memory.Planned // if PlanConfig.Place
	Placed    int64            // the arena of a step that follows Placement
}

// InPlace is what one kind of op did without, because it wrote over memory instead of asking for it.
type InPlace struct {
	Op    string // "add_" in forward, "gelu'" in backward
	Times int
	Bytes int64 // in all: as much as it would have allocated
}

// Slack is a value that was held for longer than it was used.
type Slack struct {
	Bytes  int64
	Site   memory.Site // who made it
	Spec   string
	Allocs int // how many allocations came between its last use and its release
}

// Peak is the largest peak over the steps, in bytes.
func (p *Plan) Peak() int64 {
	return p.max(func(s *StepPlan) int64 { return s.Peak })
}

// Arena is the largest arena over the steps, in bytes.
func (p *Plan) Arena() int64 {
	return p.max(func(s *StepPlan) int64 { return s.Arena })
}

func (p *Plan) max(f func(*StepPlan) int64) (m int64) {
	for i := range p.Steps {
		m = max(m, f(&p.Steps[i]))
	}
	return m
}

// Plan runs f dry: the same code on the same allocator, without kernels and without bytes. Nothing that it does lasts;
// the limit is not enforced but compared. A step that needs a value's number gets 0 (see Plan.Reads). f's error ends
// the dry run and is returned.
func (ss *Session) Plan(f func(*Scope) error, cfg PlanConfig) (*Plan, error) {
	if cfg.Steps < 0 {
		return nil, fmt.Errorf("autograd: PlanConfig.Steps is %d: want 0 (2) or more", cfg.Steps)
	}
	if cfg.Steps == 0 {
		cfg.Steps = 2
	}
	if err := ss.begin("Plan"); err != nil {
		return nil, err
	}
	defer ss.running.Store(false)
	pl := &planner{ss: ss, cfg: cfg, plan: &Plan{}}
	pl.open()
	defer pl.close()
	held := ss.dev.Holders()
	for range cfg.Steps {
		if err := pl.step(f); err != nil {
			return nil, err
		}
	}
	pl.place(held)
	return pl.plan, nil
}

// place finds addresses for all steps together, since buffers live on from one to the next.
func (pl *planner) place(held []memory.Holder) {
	if !pl.cfg.Place {
		return
	}
	var all []memory.Event
	for i := range pl.plan.Steps {
		all = append(all, pl.plan.Steps[i].Events...)
	}
	placed, _ := memory.Place(held, all)
	live := map[int64]int64{} // end by address
	for _, h := range held {
		live[h.Addr] = h.Addr + h.Bytes
	}
	for i := range pl.plan.Steps {
		st := &pl.plan.Steps[i]
		n := 0
		for _, e := range st.Events {
			if e.Act == memory.Alloc || e.Act == memory.Free {
				n++
			}
		}
		st.Placement, placed = placed[:n:n], placed[n:]
		st.Placed = highest(live, st.Placement)
		if !pl.cfg.Events {
			st.Events = nil
		}
	}
}

// highest is the arena of a placement that begins with live buffers, which it brings up to date.
func highest(live map[int64]int64, placement []memory.Planned) (arena int64) {
	for _, end := range live {
		arena = max(arena, end)
	}
	for _, e := range placement {
		if e.Act == memory.Free {
			delete(live, e.Addr)
			continue
		}
		live[e.Addr] = e.Addr + e.Bytes
		arena = max(arena, e.Addr+e.Bytes)
	}
	return (arena + 63) &^ 63
}

// planner is the state of a running dry run. Its methods do nothing on nil, so that the engine need not ask.
type planner struct {
	ss     *Session
	cfg    PlanConfig
	plan   *Plan
	undo   []func()
	failed bool
	events []memory.Event
	used   map[*memory.Buffer]uint64 // allocations so far, when the buffer was last used
	back   func()
}

// open sets the session's and the device's state aside.
func (pl *planner) open() {
	ss := pl.ss
	ss.planID++
	ss.plan = pl
	rand, init, follow := ss.rand, ss.init, ss.follow // numbers of nodes, passes and steps go on: they tell apart what is marked with them
	ss.dev.Fork()
	var trace func(memory.Event)
	if pl.cfg.Events || pl.cfg.Place {
		trace = func(e memory.Event) { pl.events = append(pl.events, e) }
	}
	old := ss.dev.SetTrace(trace)
	pl.back = func() {
		ss.dev.SetTrace(old)
		ss.dev.Join()
		ss.rand, ss.init, ss.follow = rand, init, follow
	}
}

// close puts everything back (R9), in a panic too.
func (pl *planner) close() {
	ss := pl.ss
	for i := len(pl.undo) - 1; i >= 0; i-- {
		pl.undo[i]()
	}
	ss.plan = nil
	pl.back()
}

func (pl *planner) step(f func(*Scope) error) error {
	d := pl.ss.dev
	d.ResetPeak()
	before := d.Stats()
	pl.used, pl.plan.Slack, pl.plan.InPlace, pl.events = map[*memory.Buffer]uint64{}, nil, nil, nil
	if err := pl.ss.run(context.Background(), f); err != nil {
		return err
	}
	st := d.Stats()
	sp := StepPlan{Peak: st.Peak, Arena: st.ArenaPeak, ByKind: st.PeakByKind, After: st.Live, Hash: st.Hash, Allocs: st.Allocs - before.Allocs, Events: pl.events}
	if st.Limit > 0 {
		sp.OverBy = max(0, sp.Arena-st.Limit)
	}
	for _, u := range pl.plan.InPlace {
		sp.InPlace += u.Bytes
	}
	slices.SortFunc(pl.plan.InPlace, func(a, b InPlace) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Op, b.Op)) })
	pl.plan.Steps = append(pl.plan.Steps, sp)
	return nil
}

// touch notes a use of b.
func (pl *planner) touch(b *memory.Buffer) {
	if pl != nil && b != nil {
		pl.used[b] = pl.ss.dev.Stats().Allocs
	}
}

// wroteOver notes that op wrote over memory.
func (pl *planner) wroteOver(op string, bytes int64) {
	if pl == nil {
		return
	}
	list := pl.plan.InPlace
	i := slices.IndexFunc(list, func(u InPlace) bool { return u.Op == op })
	if i < 0 {
		i, list = len(list), append(list, InPlace{Op: op})
	}
	list[i].Times++
	list[i].Bytes += bytes
	pl.plan.InPlace = list
}

func (pl *planner) read(v *Value) {
	if pl != nil {
		pl.plan.Reads = append(pl.plan.Reads, v.site)
	}
}

// slack looks at a value that its scope lets go of: if that frees bytes that nobody has used for some allocations, it
// was held too long.
func (pl *planner) slack(v *Value) {
	if pl == nil || pl.failed || v.t.Buffer().Refs() != 1 {
		return
	}
	if n := int(pl.ss.dev.Stats().Allocs - pl.used[v.t.Buffer()]); n > 0 {
		pl.plan.Slack = append(pl.plan.Slack, Slack{Bytes: v.t.Buffer().Size(), Site: v.site, Spec: v.Spec().String(), Allocs: n})
	}
}
