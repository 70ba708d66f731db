package autograd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/thimble-ml/thimble/internal/pool"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// DefaultLanes is how many chunks of a kernel may hold scratch at once if Config.Lanes is 0.
const DefaultLanes = 8

// Config of a session.
type Config struct {
	// Device holds every byte. Required.
	Device *memory.Device
	// Seed starts the random streams: same seed, same bits.
	Seed uint64
	// Workers is how many goroutines run kernels, the caller's included. 0: GOMAXPROCS when New is called. It bounds
	// speed only: neither values nor byte figures depend on it.
	Workers int
	// Lanes bounds the scratch of a kernel (scratch a lane times Lanes) and with it how many workers can help. 0: 8.
	// It is part of what decides the byte figures.
	Lanes int
	// NoOverwrite gives each gradient a buffer of its own instead of writing it over what backward has used up (see
	// Rule.Over). Values are the same; it is there to compare.
	NoOverwrite bool
}

// Random streams of a session, by ID.
const (
	streamTrain = iota // dropout and other ops of a step
	streamInit         // initial values of parameters
	streamOwn          // the first of those that NewStream gives
)

// Session is one goroutine's use of a device: its parameters, streams, workers and the step that is running. No method
// may be called from two goroutines at once: it is refused with an error, not a crash.
type Session struct {
	dev     *memory.Device
	lanes   int
	apart   bool // Config.NoOverwrite
	workers *pool.Pool
	rand    tensor.Stream // streamTrain
	init    tensor.Stream // streamInit
	streams uint64        // that NewStream has given

	busy    atomic.Bool // an engine call is running
	running atomic.Bool // a Step or Plan is running
	closed  bool
	refused error // see Refuse
	ctx     context.Context

	cur    *owner // innermost open scope
	pass   *pass  // innermost running one
	nodeID uint64
	passID uint64
	stepID uint64

	phase  string // what the device was told last
	op     uint64 // number of the operation that began last
	passed bool   // a pass has ended, and no op has been recorded since

	params     []*Param
	birthplace Home // where NewParam puts what it makes; nil: on the device
	closers    []func()
	undo       []func()    // run, last first, if the step fails
	journal    []journaled // storages to put back if the step fails
	touched    []*Param    // whose gradient this step made or added to
	plan       *planner    // not nil in a dry run
	follow     []StepPlan  // placements of the steps to come; the last one stays
	planID     uint64
	packed     map[packKey]*packed
	trace      func(Traced) // see SetTrace

	works   []*work            // room for Apply,
	rooms   [][]*memory.Buffer // for lanes of scratch that are apart,
	calls   []*call            // for backward kernels,
	owners  []*owner           // scopes
	nodes   []*node            // and nodes, all used again
	tiler   tiler
	values  []Value
	strides []int // zeros, that strides are cut from
	paths   map[pathKey]string
}

// New opens a session on cfg.Device.
func New(cfg Config) (*Session, error) {
	switch {
	case cfg.Device == nil:
		return nil, errors.New("autograd: Config.Device is nil: want a device from memory.NewDevice")
	case cfg.Workers < 0 || cfg.Workers > pool.Most:
		return nil, fmt.Errorf("autograd: Config.Workers is %d: want 0 (GOMAXPROCS) to %d", cfg.Workers, pool.Most)
	case cfg.Lanes < 0:
		return nil, fmt.Errorf("autograd: Config.Lanes is %d: want 0 (%d) or more", cfg.Lanes, DefaultLanes)
	}
	if cfg.Lanes == 0 {
		cfg.Lanes = DefaultLanes
	}
	return &Session{
		dev:     cfg.Device,
		lanes:   cfg.Lanes,
		apart:   cfg.NoOverwrite,
		workers: pool.New(workersOr(cfg.Workers)),
		rand:    tensor.Stream{Seed: cfg.Seed, ID: streamTrain},
		init:    tensor.Stream{Seed: cfg.Seed, ID: streamInit},
		packed:  map[packKey]*packed{},
		paths:   map[pathKey]string{},
	}, nil
}

// Device is where the session's bytes are.
func (ss *Session) Device() *memory.Device { return ss.dev }

// Lanes is the number of scratch lanes, as configured.
func (ss *Session) Lanes() int { return ss.lanes }

// Dry tells whether kernels are skipped: in a dry run, and on a virtual device.
func (ss *Session) Dry() bool { return ss.dev.Virtual() }

// Running tells whether a Step or Plan is running.
func (ss *Session) Running() bool { return ss.running.Load() }

// Rand is the state of the stream that the ops of a step draw from.
func (ss *Session) Rand() tensor.Stream { return ss.rand }

// SetRand sets it, to resume where another session stopped.
func (ss *Session) SetRand(r tensor.Stream) { ss.rand = r }

// NewStream gives a random stream that nothing else in the session draws from, to an owner who draws at times of its own,
// such as an optimizer that rounds at random. The n-th call gives the same one wherever the seed is the same.
func (ss *Session) NewStream() tensor.Stream {
	ss.streams++
	return tensor.Stream{Seed: ss.rand.Seed, ID: streamOwn + ss.streams - 1}
}

// OnClose runs f when the session closes, last registered first: for owners of counted state, such as optimizers.
func (ss *Session) OnClose(f func()) { ss.closers = append(ss.closers, f) }

// OnRollback runs f if the running step fails, last registered first: for counters and statistics kept in Go. Outside a
// step it does nothing.
func (ss *Session) OnRollback(f func()) {
	if ss.running.Load() {
		ss.undo = append(ss.undo, f)
	}
}

// OnPlanEnd runs f when the running dry run ends, last registered first. Outside a dry run it does nothing.
func (ss *Session) OnPlanEnd(f func()) {
	if ss.plan != nil {
		ss.plan.undo = append(ss.plan.undo, f)
	}
}

// Journal puts *p back to its present value if the running step fails and when a running dry run ends.
func Journal[T any](ss *Session, p *T) {
	old := *p
	back := func() { *p = old }
	ss.OnRollback(back)
	ss.OnPlanEnd(back)
}

// Close releases the parameters, their gradients and what was registered with OnClose, and ends the workers. It is an
// error while a step runs; a second Close does nothing.
func (ss *Session) Close() error {
	if ss.running.Load() {
		return errors.New("autograd: Close within a Step or Plan: return from it first")
	}
	if ss.closed {
		return nil
	}
	ss.closed = true
	for i := len(ss.closers) - 1; i >= 0; i-- {
		ss.closers[i]()
	}
	for i := len(ss.params) - 1; i >= 0; i-- {
		ss.params[i].Release()
	}
	ss.closers, ss.params = nil, nil
	ss.workers.Close()
	return nil
}

// Step runs f as one training step in a scope of its own and releases everything made in it. It returns f's error, or
// the *Error of the operation that failed, and then live bytes, streams and counters are what they were (R8). Other
// panics and runtime.Goexit go on after the same cleaning. ctx is looked at between operations; nil never ends.
func (ss *Session) Step(ctx context.Context, f func(*Scope) error) error {
	if err := ss.begin("Step"); err != nil {
		return err
	}
	defer ss.running.Store(false)
	return ss.run(ctx, f)
}

// Follow has the steps to come place their buffers as p, made with PlanConfig.Place, says: the first as its first step, and
// so on; the last one's placement stays. That lowers the arena by the holes that best fit leaves; live bytes and values are
// the same. A step that allocates otherwise than the plan, or begins with other buffers alive, goes on by best fit from the
// first event that differs: nothing but the arena depends on it. A dry run follows as the real steps would. nil ends it.
func (ss *Session) Follow(p *Plan) error {
	if p == nil {
		ss.follow = nil
		ss.dev.Follow(nil)
		return nil
	}
	for i := range p.Steps {
		if len(p.Steps[i].Placement) == 0 && p.Steps[i].Allocs > 0 {
			return errors.New("autograd: Follow of a plan without placements: want one made with PlanConfig.Place")
		}
	}
	ss.follow = p.Steps
	return nil
}

// followNext arms the device for the step that begins.
func (ss *Session) followNext() {
	if len(ss.follow) == 0 {
		return
	}
	ss.dev.Follow(ss.follow[0].Placement)
	if len(ss.follow) > 1 {
		ss.follow = ss.follow[1:]
	}
}

// begin claims the session for a Step or Plan.
func (ss *Session) begin(what string) error {
	if ss.closed {
		return fmt.Errorf("autograd: %s on a closed session", what)
	}
	if ss.refused != nil {
		return fmt.Errorf("autograd: %s: %w", what, ss.refused)
	}
	if !ss.running.CompareAndSwap(false, true) {
		return fmt.Errorf("autograd: %s while a Step or Plan of this session is running: steps do not nest, and a session belongs to one goroutine", what)
	}
	return nil
}

// errUnwound stands for a panic or Goexit that goes on after the cleaning.
var errUnwound = errors.New("unwound")

// run is the body of Step and of each step of a Plan. It is one of the places that recover (see package doc of the
// design, law E1): an *Error becomes the result, anything else goes on.
func (ss *Session) run(ctx context.Context, f func(*Scope) error) (err error) {
	ss.stepID++
	ss.ctx = ctx
	rand := ss.rand
	ss.followNext()
	ss.passed = false
	ss.mark(inForward)
	o := ss.open("")
	returned := false
	defer func() {
		if !returned {
			r := recover()
			e, ok := r.(*Error)
			if !ok {
				ss.finish(o, rand, errUnwound)
				if r != nil {
					panic(r)
				}
				return // runtime.Goexit: the goroutine ends after its deferred calls
			}
			err = e
		}
		ss.finish(o, rand, err)
	}()
	err = f(&Scope{o: o, gen: o.gen, m: Modes{Rand: &ss.rand}})
	if err == nil && ctx != nil {
		err = ctx.Err()
	}
	returned = true
	return err
}

// finish closes the step's scope and, if it failed, puts the session back.
func (ss *Session) finish(o *owner, rand tensor.Stream, err error) {
	ss.busy.Store(false)
	if err != nil && ss.plan != nil {
		ss.plan.failed = true
	}
	ss.closeTo(o)
	if err != nil {
		ss.rand = rand
		for i := len(ss.undo) - 1; i >= 0; i-- {
			ss.undo[i]()
		}
		ss.rollbackGrads()
	}
	ss.endJournal(err != nil)
	clear(ss.undo)
	clear(ss.touched)
	ss.undo, ss.touched, ss.ctx = ss.undo[:0], ss.touched[:0], nil
	ss.mark("")
}

// enter claims the engine for one call; leave gives it back. Code of users (savers, hooks) runs outside.
func (ss *Session) enter(op, scope string) {
	if !ss.busy.CompareAndSwap(false, true) {
		raise(op, scope, nil, errBusy)
	}
}

func (ss *Session) leave() { ss.busy.Store(false) }

// canceled raises the context's error.
func (ss *Session) canceled(op, scope string) {
	if ss.ctx != nil {
		if err := ss.ctx.Err(); err != nil {
			raise(op, scope, nil, err)
		}
	}
}
