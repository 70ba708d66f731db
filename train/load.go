package train

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/durable"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// Load brings a training to where it was when its state was saved: build everything as then, and load before the first
// step. It is strict: names, shapes, dtypes and the set of things that were saved must be those of st, and one error lists
// what is not. Before anything changes, the whole file was read and its checksums were found right; after such an error
// everything is as it was. If the file cannot be read a second time (a disk that breaks just then), the error says so, and
// the session refuses further steps until a Load succeeds.
//
// Where there is no file, errors.Is(err, fs.ErrNotExist) holds: a training that begins.
func Load(path string, st State) (Info, error) { return load(durable.OS, path, st) }

func load(fs durable.FS, path string, st State) (Info, error) {
	in, err := fs.Open(path)
	if err != nil {
		return Info{}, fmt.Errorf("train: Load: %s: %w", path, err)
	}
	defer in.Close()
	size, err := in.Size()
	var f *stateFile
	if err == nil {
		f, err = openState(in, size)
	}
	if err == nil {
		err = loadFrom(f, path, &st)
	}
	if err != nil {
		return Info{}, fmt.Errorf("train: Load: %s: %w", path, err)
	}
	return f.info(), nil
}

func loadFrom(f *stateFile, path string, st *State) error {
	l := &loading{f: f, path: path, st: st, at: map[string]int{}, targets: map[string]target{}, params: map[string]*autograd.Param{}}
	defer l.release()
	var err error
	if l.ss, err = st.session(); err != nil {
		return err
	}
	l.expect()
	if err := l.match(); err != nil {
		return err
	}
	if err := l.read(); err != nil {
		return err
	}
	if err := l.change(); err != nil {
		l.undoAll()
		return err
	}
	return l.replace()
}

// loading is a Load at work.
type loading struct {
	f    *stateFile
	path string
	st   *State
	ss   *autograd.Session

	at       map[string]int    // the file's entries by name
	targets  map[string]target // by their names in the file
	params   map[string]*autograd.Param
	grads    map[string]*tensor.Tensor // that were read, of params
	problems []string
	undo     []func()
}

// target is a tensor that a Load writes over.
type target struct {
	spec tensor.Spec
	fill func(read func(*tensor.Tensor) error) error
}

// expect lists the tensors that the file must have, but for gradients and moments.
func (l *loading) expect() {
	there := func(t *tensor.Tensor) target {
		return target{t.Spec(), func(read func(*tensor.Tensor) error) error { return read(t) }}
	}
	for name, p := range nn.NamedParams(l.st.Model) {
		l.params[name] = p
		l.targets["model."+name] = target{p.Spec(), func(read func(*tensor.Tensor) error) error { return overwrite(p, read) }}
	}
	for name, t := range nn.NamedBuffers(l.st.Model) {
		l.targets["model."+name] = there(t)
	}
	if l.st.EMA != nil {
		for _, e := range l.st.EMA.State() {
			l.targets["ema."+e.Name] = there(e.Tensor)
		}
	}
}

// overwrite has read write the value of p, wherever p lives.
func overwrite(p *autograd.Param, read func(*tensor.Tensor) error) error {
	t, err := p.Fetch()
	if err != nil {
		return err
	}
	defer t.Release()
	if err := read(&t); err != nil {
		return err
	}
	return p.Store(&t)
}

func (l *loading) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// match compares the file with what is to be loaded.
func (l *loading) match() error {
	l.matchThings()
	for i := range l.f.Entries {
		e := &l.f.Entries[i]
		l.at[e.Name] = i
		want, ok := l.wanted(e.Name)
		if !ok {
			l.problem("unexpected: %s %s", e.Name, e)
			continue
		}
		if got, err := e.Spec(); err != nil || !got.Equal(want) {
			l.problem("%s: it is %s in the file: want %s", e.Name, e, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.targets)) {
		if _, ok := l.at[name]; !ok {
			l.problem("missing: %s %s", name, l.targets[name].spec)
		}
	}
	const most = 20
	switch n := len(l.problems); {
	case n == 0:
		return nil
	case n == 1:
		return fmt.Errorf("nothing loaded: %s", l.problems[0])
	case n > most:
		l.problems = append(l.problems[:most], fmt.Sprintf("and %d more", n-most))
		fallthrough
	default:
		return fmt.Errorf("nothing loaded: %d things do not match:\n  %s", n, strings.Join(l.problems, "\n  "))
	}
}

// matchThings compares what there is beside the model.
func (l *loading) matchThings() {
	both := func(name string, saved, wanted bool) {
		switch {
		case saved && !wanted:
			l.problem("unexpected: the file has the state of %s, and there is none to go on from it", name)
		case wanted && !saved:
			l.problem("missing: the file has no state of %s", name)
		}
	}
	both("an optimizer", l.f.Optimizer != nil, l.st.Optimizer != nil)
	parts := l.st.parts()
	all := map[string]bool{}
	for name := range parts {
		all[name] = true
	}
	for name := range l.f.Parts {
		all[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, saved := l.f.Parts[name]
		_, wanted := parts[name]
		both(name, saved, wanted)
	}
}

// wanted is what a tensor of the file must be.
func (l *loading) wanted(name string) (tensor.Spec, bool) {
	if t, ok := l.targets[name]; ok {
		return t.spec, true
	}
	if rest, ok := strings.CutPrefix(name, "grad."); ok {
		p := l.params[rest]
		if p == nil {
			return tensor.Spec{}, false
		}
		return p.Spec(), true
	}
	if i, state, ok := l.moment(name); ok && l.f.Optimizer != nil && i < len(l.f.Optimizer.Params) {
		if slices.Contains(l.f.Optimizer.Params[i].State, state) {
			e, _ := l.f.Find(name)
			s, err := e.Spec() // what it must be the optimizer knows, which refuses another
			return s, err == nil
		}
	}
	return tensor.Spec{}, false
}

// moment takes the name of a moment apart.
func (l *loading) moment(name string) (param int, state string, ok bool) {
	rest, ok := strings.CutPrefix(name, "optimizer.")
	if !ok {
		return 0, "", false
	}
	number, state, ok := strings.Cut(rest, ".")
	param, err := strconv.Atoi(number)
	return param, state, ok && err == nil && param >= 0 && momentName(param, state) == name
}

// read reads everything once: gradients into tensors of their own, the rest for its checksums. Moments are read by the
// optimizer, before it changes anything.
func (l *loading) read() error {
	l.grads = map[string]*tensor.Tensor{}
	for i := range l.f.Entries {
		e := &l.f.Entries[i]
		name, grad := strings.CutPrefix(e.Name, "grad.")
		switch {
		case grad:
			p := l.params[name]
			t, err := tensor.New(l.ss.Device(), memory.Grad, memory.Site{Op: "load", Scope: name}, p.Spec())
			if err != nil {
				return fmt.Errorf("%s: %w", e.Name, err)
			}
			l.grads[name] = t
			if err := l.f.read(i, t); err != nil {
				return err
			}
		case !strings.HasPrefix(e.Name, "optimizer."):
			if err := l.f.verify(i); err != nil {
				return err
			}
		}
	}
	if l.f.Rand.ID != l.ss.Rand().ID {
		return fmt.Errorf("its random stream is number %d: want %d, that of steps", l.f.Rand.ID, l.ss.Rand().ID)
	}
	return nil
}

// release gives up the gradients that nobody took.
func (l *loading) release() {
	for _, t := range l.grads {
		t.Release()
	}
}

// change does all that can be undone, and then the optimizer, which loads wholly or not at all.
func (l *loading) change() error {
	parts := l.st.parts()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		undo, err := parts[name].load(l.f.Parts[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		l.undo = append(l.undo, undo)
	}
	o, err := l.st.optimizer()
	if o == nil {
		return err
	}
	d, err := l.stateDict()
	if err != nil {
		return err
	}
	return o.LoadStateDict(d)
}

func (l *loading) undoAll() {
	for _, f := range slices.Backward(l.undo) {
		f()
	}
}

// stateDict is the optimizer's, with tensors that are read when they are asked for.
func (l *loading) stateDict() (*optim.StateDict, error) {
	h := l.f.Optimizer
	d := &optim.StateDict{Optimizer: h.Name, Groups: h.Groups, Rand: h.Rand}
	for i, p := range h.Params {
		ps := optim.ParamState{Name: p.Name, Step: p.Step, Stored: map[string]optim.StoredTensor{}}
		for _, state := range p.State {
			at, ok := l.at[momentName(i, state)]
			if !ok {
				return nil, fmt.Errorf("%s is missing in the file, whose header speaks of it", momentName(i, state))
			}
			spec, err := l.f.Entries[at].Spec()
			if err != nil {
				return nil, err
			}
			ps.Stored[state] = optim.StoredTensor{Spec: spec, Fetch: func() (tensor.Tensor, error) { return l.fetch(at, spec) }}
		}
		d.Params = append(d.Params, ps)
	}
	return d, nil
}

// fetch reads entry i onto the device.
func (l *loading) fetch(i int, spec tensor.Spec) (tensor.Tensor, error) {
	t, err := tensor.Make(l.ss.Device(), memory.Other, memory.Site{Op: "load", Scope: l.f.Entries[i].Name}, spec)
	if err != nil {
		return t, err
	}
	if err := l.f.read(i, &t); err != nil {
		t.Release()
		return tensor.Tensor{}, err
	}
	return t, nil
}

// replace writes over the tensors and sets what cannot fail. If it stops half way, the session must not go on.
func (l *loading) replace() error {
	if err := l.overwriteAll(); err != nil {
		err = fmt.Errorf("the state is half loaded, and the session refuses steps until one is loaded whole: %w", err)
		l.ss.Refuse(fmt.Errorf("%s: %w", l.path, err))
		return err
	}
	l.ss.SetRand(l.f.Rand)
	l.ss.Refuse(nil)
	return nil
}

func (l *loading) overwriteAll() error {
	for i := range l.f.Entries {
		if to, ok := l.targets[l.f.Entries[i].Name]; ok {
			if err := to.fill(func(t *tensor.Tensor) error { return l.f.read(i, t) }); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.params)) {
		p, t := l.params[name], l.grads[name]
		if t == nil {
			p.ZeroGrad()
			continue
		}
		if err := p.AdoptGrad(*t); err != nil {
			return err
		}
		delete(l.grads, name)
		if k, ok := l.f.GradScales[name]; ok {
			p.SetGradScale(k)
		}
	}
	return nil
}
