package optim

import (
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// core is an optimizer without its rule: parameters in groups, their state, and a step's order of events. SGD and AdamW
// embed it; the rule comes with each group's config.
type core struct {
	name   string // "AdamW", as in errors
	op     string // "adamw", as in events
	ss     *autograd.Session
	params []*autograd.Param
	slots  []slot
	groups []config
	closed bool

	released bool   // ReleaseGradients was called
	changes  uint64 // how often state has changed: what a StateDict goes out of date by

	due  []*slot // whom the running Step updates together
	work pieces  // of due
	far  []*slot // those with stored state, tile by tile
	away []*slot // and those that live in a Home, one by one

	broken error // a failed Step could not be taken back

	rand   tensor.Stream // whose words RoundStochastic draws: its seed and ID
	halves []halfPiece   // one a lane
}

// slot is one parameter and its state.
type slot struct {
	par   *autograd.Param
	group int
	steps int64         // updates that state has seen; 0: state holds nothing yet
	room                // its state, as config.state names it
	w, g  tensor.Tensor // value and gradient in the running Step, borrowed

	factor float64    // what gradients are multiplied by in the rule
	id     uint64     // place in the optimizer
	base   int        // of a tile: its first element
	wide   *halfPiece // of a half type: what the rule works on
}

// config is the hyper-parameters of a group with the rule that they belong to: *SGDConfig or *AdamWConfig.
type config interface {
	// check fills in defaults and refuses what makes no sense.
	check() error
	// rate is the learning rate.
	rate() *float64
	// fields are all hyper-parameters, by torch's names.
	fields() []field
	// state lists the tensors kept for a parameter of that spec, by torch's names.
	state(spec tensor.Spec) []moment
	// half says how a parameter of a half type takes an update.
	half() HalfUpdate
	// store is where that is kept; nil: on the device.
	store() StateStore
	// update is the rule, on elements [lo, hi) of a parameter. It runs on any worker.
	update(sl *slot, lo, hi int)
	clone() config
}

// moment is a tensor of a parameter's state.
type moment struct {
	name string
	spec tensor.Spec
}

// moments are tensors of the parameter's own spec.
func moments(spec tensor.Spec, names ...string) (list []moment) {
	for _, name := range names {
		list = append(list, moment{name, spec})
	}
	return list
}

// whole is a rule that looks at a whole parameter at once instead of at each element: config.update is not called.
type whole interface {
	// scratch is the bytes that step wants for a parameter of that spec.
	scratch(spec tensor.Spec) int64
	step(lane []byte, sl *slot)
}

// Group is a set of parameters with hyper-parameters of their own.
type Group[C any] struct {
	Params []*autograd.Param
	Config C
}

// openGroups is open for groups of one config type; the optimizer keeps copies of the configs.
func openGroups[C any, P interface {
	*C
	config
}](c *core, maker string, groups []Group[C]) error {
	var ms []members
	for i := range groups {
		cfg := groups[i].Config
		ms = append(ms, members{groups[i].Params, P(&cfg)})
	}
	return c.open(maker, ms)
}

// members is what a group is made from.
type members struct {
	params []*autograd.Param
	cfg    config
}

// open makes the optimizer. Errors begin with maker, the function that the user called.
func (c *core) open(maker string, groups []members) error {
	if len(groups) == 0 {
		return fmt.Errorf("optim: %s: no groups: want one or more", maker)
	}
	seen := map[*autograd.Param]int{}
	for g, m := range groups {
		if err := c.add(g, m, seen); err != nil {
			where := ""
			if len(groups) > 1 {
				where = fmt.Sprintf("group %d: ", g)
			}
			return fmt.Errorf("optim: %s: %s%w", maker, where, err)
		}
	}
	if err := c.allocate(); err != nil {
		return fmt.Errorf("optim: %s: %w", maker, err)
	}
	c.rand = c.ss.NewStream()
	c.ss.OnClose(c.release)
	return nil
}

// add checks a group and takes it in. seen holds the group of each parameter so far.
func (c *core) add(g int, m members, seen map[*autograd.Param]int) error {
	if len(m.params) == 0 {
		return errors.New("no parameters: want one or more (are all of them frozen?)")
	}
	if *m.cfg.rate() == 0 {
		return errors.New("LR is 0: a learning rate has no default, want more than 0 (SetLR takes 0 later)")
	}
	if err := first(m.cfg.check(), m.cfg.half().check()); err != nil {
		return err
	}
	c.groups = append(c.groups, m.cfg)
	for i, p := range m.params {
		if p == nil {
			return fmt.Errorf("parameter %d is nil", i)
		}
		if h, twice := seen[p]; twice {
			return fmt.Errorf("parameter %d, %s, is given twice, first in group %d: it would be updated twice a step", i, p.Name(), h)
		}
		seen[p] = g
		if err := c.accept(p); err != nil {
			return fmt.Errorf("parameter %d, %s: %w", i, p.Name(), err)
		}
		c.params = append(c.params, p)
		c.slots = append(c.slots, slot{par: p, group: g, factor: 1, id: uint64(len(c.slots))})
	}
	return nil
}

// accept refuses a parameter that cannot be trained here.
func (c *core) accept(p *autograd.Param) error {
	if c.ss == nil {
		c.ss = p.Session()
	}
	switch {
	case p.Session() != c.ss:
		return errors.New("it belongs to another session than the parameters before it: an optimizer has one session")
	case p.Released():
		return errors.New("it was released")
	case p.Frozen():
		return errors.New("it is frozen: leave it out, or freeze it after the optimizer is made")
	case c.ss.Device().Forked():
		return errors.New("the optimizer is made in a dry run, which keeps nothing: make it before Plan")
	}
	return nil
}

// allocate makes the state of all parameters, or none.
func (c *core) allocate() error {
	for i := range c.slots {
		sl := &c.slots[i]
		room, err := c.newRoom(sl.par, c.groups[sl.group])
		if err != nil {
			c.release()
			return err
		}
		sl.room = room
	}
	return nil
}

// newTensor makes a moment of p on the device, zero.
func (c *core) newTensor(p *autograd.Param, m moment) (tensor.Tensor, error) {
	t, err := tensor.Zeros(c.ss.Device(), memory.OptState, memory.Site{Op: c.op, Scope: p.Name()}, m.spec)
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("%s of parameter %s: %w", m.name, p.Name(), err)
	}
	return *t, nil
}

func releaseAll(ts []tensor.Tensor) {
	for i := range ts {
		ts[i].Release()
	}
}

// release gives the state back; what was given back already stays so.
func (c *core) release() {
	c.closed = true
	for i := range c.slots {
		c.slots[i].release()
	}
}

// Close gives the state back. The session's Close does it too; a second Close does nothing. In a dry run it is an error.
func (c *core) Close() error {
	if !c.closed && c.ss.Device().Forked() {
		return c.fail("Close", errors.New("within a dry run: close it after Plan"))
	}
	c.release()
	return nil
}

// fail says whose method an error came from.
func (c *core) fail(method string, err error) error {
	return fmt.Errorf("optim: %s.%s: %w", c.name, method, err)
}

// Session is the session of the parameters.
func (c *core) Session() *autograd.Session { return c.ss }

// Params are all parameters in group order. The slice must not be modified.
func (c *core) Params() []*autograd.Param { return c.params[:len(c.params):len(c.params)] }

// Groups is the number of groups.
func (c *core) Groups() int { return len(c.groups) }

// LR is the learning rate of a group.
func (c *core) LR(group int) float64 { return *c.groups[group].rate() }

// SetLR changes the learning rate of a group from the next Step on; 0 is legal and stops the group, its decay included.
// Within a step that fails, and in a dry run, the change is put back.
func (c *core) SetLR(group int, lr float64) error {
	if group < 0 || group >= len(c.groups) {
		return c.fail("SetLR", fmt.Errorf("group %d: want 0 to %d", group, len(c.groups)-1))
	}
	if err := notNegative("LR", lr); err != nil {
		return c.fail("SetLR", err)
	}
	rate := c.groups[group].rate()
	autograd.Journal(c.ss, rate)
	*rate = lr
	return nil
}

// ZeroGrad gives the gradients' buffers back and ends their staleness.
func (c *core) ZeroGrad(*autograd.Scope) {
	for _, p := range c.params {
		p.ZeroGrad()
	}
}
