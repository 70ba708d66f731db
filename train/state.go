package train

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
)

// State names everything that a training must know to go on as if it had never stopped. What is nil is not saved; loading
// wants exactly what was saved. The random stream of the model's session is always part of it, and so are gradients that
// are there, those of a window that is not full for example.
type State struct {
	// Model gives parameters, frozen ones too, and buffers, by the names of nn.StateDict. Required.
	Model any
	// Optimizer, one of package optim, is saved with its moments in their own dtypes, its step counters and its
	// hyper-parameters, which win over the constructor's when they are loaded.
	Optimizer optim.Optimizer
	// Schedule drives the optimizer's learning rates.
	Schedule optim.Schedule
	// Scaler is the loss scaler, as a Part: Of(scaler).
	Scaler Part
	// Window is saved with its position.
	Window *Window
	// Loader is saved with the position behind the last batch that it gave.
	Loader *data.Loader
	// EMA is saved with its averages.
	EMA *nn.EMA
	// Parts are further things, each under a name of its own: a second loader, counters of the loop. See Of, Func and Var.
	Parts map[string]Part
}

// Part is something small that is saved as JSON. Of, Func and Var make one.
type Part interface {
	// save gives the JSON.
	save() (json.RawMessage, error)
	// load goes on from it, and gives what undoes that. After an error nothing has changed.
	load(json.RawMessage) (undo func(), err error)
}

// Of is a Part of anything that gives its state as a copy and goes on from one, as data.Loader and the schedules do, and
// loss scalers: the way to save what State has no field for. Load must leave things as they are when it fails.
func Of[T any](x interface {
	State() T
	Load(T) error
}) Part {
	return part[T]{x.State, x.Load}
}

// Func is a Part of two functions: state gives a copy of what is to be saved, load goes on from one or, if it fails, leaves
// things as they are.
func Func[T any](state func() T, load func(T) error) Part { return part[T]{state, load} }

// Var is a Part of a variable: the number of an epoch, a struct with what the loop counts. T is anything that JSON holds
// exactly; fields that are not exported are not.
func Var[T any](p *T) Part {
	return part[T]{func() T { return *p }, func(v T) error { *p = v; return nil }}
}

type part[T any] struct {
	state func() T
	set   func(T) error
}

func (p part[T]) save() (json.RawMessage, error) { return json.Marshal(p.state()) }

func (p part[T]) load(text json.RawMessage) (func(), error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	old := p.state()
	if err := p.set(v); err != nil {
		return nil, err
	}
	return func() { _ = p.set(old) }, nil // it was its state a moment ago
}

// parts is all of st that is saved as JSON, by the names that it has in the file.
func (st *State) parts() map[string]Part {
	all := map[string]Part{}
	if st.Schedule != nil {
		all["schedule"] = Of(st.Schedule)
	}
	if st.Loader != nil {
		all["loader"] = Of(st.Loader)
	}
	if st.Window != nil {
		all["window"] = Func(st.Window.saved, st.Window.resume)
	}
	if st.Scaler != nil {
		all["scaler"] = st.Scaler
	}
	for name, p := range st.Parts {
		all["parts."+name] = p
	}
	return all
}

// stateful is an optimizer that can be saved.
type stateful interface {
	optim.Optimizer
	StateDict() (*optim.StateDict, error)
	LoadStateDict(*optim.StateDict) error
}

// optimizer gives st's as one that can be saved, nil if there is none.
func (st *State) optimizer() (stateful, error) {
	if st.Optimizer == nil {
		return nil, nil
	}
	o, ok := st.Optimizer.(stateful)
	if !ok {
		return nil, fmt.Errorf("the optimizer, %T, has no StateDict and LoadStateDict: want one of package optim", st.Optimizer)
	}
	return o, nil
}

// session checks that st is whole and between steps, and gives the one session of its parameters.
func (st *State) session() (*autograd.Session, error) {
	var ss *autograd.Session
	model := map[*autograd.Param]bool{}
	for name, p := range nn.NamedParams(st.Model) {
		if ss == nil {
			ss = p.Session()
		}
		switch {
		case p.Session() != ss:
			return nil, fmt.Errorf("%s belongs to another session than the parameters before it: save one session's at a time", name)
		case p.Released():
			return nil, fmt.Errorf("%s was released, or its session closed", name)
		}
		model[p] = true
	}
	switch {
	case ss == nil:
		return nil, fmt.Errorf("the model, %T, has no parameters", st.Model)
	case ss.Running():
		return nil, errors.New("a step is running: save and load between steps")
	case ss.Dry():
		return nil, fmt.Errorf("the device %q is virtual: there are no values", ss.Device().Name())
	case st.Window != nil && st.Window.cfg.Schedule != nil && st.Schedule == nil:
		return nil, errors.New("the window steps a schedule: want it as State.Schedule, or its position would not be saved")
	case st.Window != nil && st.Window.cfg.Scaler != nil && st.Scaler == nil:
		return nil, errors.New("the window has a loss scaler: want it as State.Scaler, or its factor would not be saved")
	case st.EMA != nil && st.EMA.Swapped():
		return nil, errors.New("the averages are in the model, and its own values in the EMA: Swap them back first")
	}
	if st.Optimizer != nil {
		for _, p := range st.Optimizer.Params() {
			if !model[p] {
				return nil, fmt.Errorf("the optimizer updates %s, which is not a parameter of the model: it would not be saved", p.Name())
			}
		}
	}
	return ss, nil
}
