package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/thimble-ml/thimble"
	"github.com/thimble-ml/thimble/internal/durable"
	"github.com/thimble-ml/thimble/internal/safetensors"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// Save writes st to the file at path, between steps. Wherever it is interrupted, by an error, a kill or a power cut, path
// leads to the old file whole or to the new one whole. Tensors go to the file from where they are, one after the other; of
// those that live in a store one at a time is on the device.
//
// Save after the step of a batch, not before: the loader's position is behind the batches that it gave.
func Save(path string, st State) error { return save(durable.OS, path, st) }

func save(fs durable.FS, path string, st State) error {
	w, err := newWriter(&st)
	if err == nil {
		err = durable.Write(fs, path, w.write)
	}
	if err != nil {
		return fmt.Errorf("train: Save: %w", err)
	}
	return nil
}

// writer is a state on its way into a file.
type writer struct {
	entries []safetensors.Entry // the checksums' last
	get     map[string]func() (tensor.Tensor, error)
	head    []byte
}

func newWriter(st *State) (*writer, error) {
	ss, err := st.session()
	if err == nil {
		err = ss.Refused()
	}
	if err != nil {
		return nil, err
	}
	w := &writer{get: map[string]func() (tensor.Tensor, error){}}
	f := thimble.Features()
	h := &header{Arch: f.Arch, Kernel: f.Kernel, Rand: ss.Rand(), GradScales: map[string]float64{}}
	if err := w.model(st, h); err != nil {
		return nil, err
	}
	if h.Optimizer, err = w.optimizer(st); err != nil {
		return nil, err
	}
	if h.Parts, err = savedParts(st); err != nil {
		return nil, err
	}
	return w, w.layout(h)
}

// add takes a tensor that get gives, with a reference for the caller, when its turn comes.
func (w *writer) add(name string, s tensor.Spec, get func() (tensor.Tensor, error)) {
	w.entries = append(w.entries, safetensors.New(name, s))
	w.get[name] = get
}

// held is a tensor that is in memory.
func held(t *tensor.Tensor) func() (tensor.Tensor, error) {
	return func() (tensor.Tensor, error) { return *t.Retain(), nil }
}

// model takes parameters, gradients, buffers and averages, and notes loss scales in h.
func (w *writer) model(st *State, h *header) error {
	grads := false
	for name, p := range nn.NamedParams(st.Model) {
		w.add("model."+name, p.Spec(), p.Fetch)
		if p.Stale() {
			return fmt.Errorf("the gradient of %s was left half added by a failed step: call ZeroGrad, or Window.Discard, and save then", name)
		}
		if p.HasGrad() {
			grads = true
			w.add("grad."+name, p.Spec(), p.FetchGrad)
			if k := p.GradScale(); k != 1 {
				h.GradScales[name] = k
			}
		}
	}
	for name, t := range nn.NamedBuffers(st.Model) {
		w.add("model."+name, t.Spec(), held(t))
	}
	if st.EMA != nil {
		for _, e := range st.EMA.State() {
			w.add("ema."+e.Name, e.Tensor.Spec(), held(e.Tensor))
		}
	}
	if st.Window == nil {
		return nil
	}
	switch pos := st.Window.Position(); {
	case pos == st.Window.Micro():
		return errors.New("the window is full, its update failed: call Window.Discard, and save then")
	case pos > 0 && !grads:
		return fmt.Errorf("the window holds %d micro-batches, but the model's parameters have no gradients: are they those of its optimizer?", pos)
	}
	return nil
}

// optimizer takes the moments, and gives the rest.
func (w *writer) optimizer(st *State) (*optimHeader, error) {
	o, err := st.optimizer()
	if o == nil {
		return nil, err
	}
	d, err := o.StateDict()
	if err != nil {
		return nil, err
	}
	h := &optimHeader{Name: d.Optimizer, Groups: d.Groups, Rand: d.Rand}
	for i := range d.Params {
		p := &d.Params[i]
		hp := optimParam{Name: p.Name, Step: p.Step}
		if p.Step > 0 { // before, they hold nothing
			hp.State = p.Names()
		}
		for _, name := range hp.State {
			w.add(momentName(i, name), specOf(p, name), func() (tensor.Tensor, error) { return p.Fetch(name) })
		}
		h.Params = append(h.Params, hp)
	}
	return h, nil
}

func momentName(param int, name string) string {
	return "optimizer." + strconv.Itoa(param) + "." + name
}

func specOf(p *optim.ParamState, name string) tensor.Spec {
	if t := p.Tensors[name]; t != nil {
		return t.Spec()
	}
	return p.Stored[name].Spec
}

// savedParts gives what is saved as JSON.
func savedParts(st *State) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for name, p := range st.parts() {
		text, err := p.save()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = text
	}
	return all, nil
}

// layout decides where everything lies in the file.
func (w *writer) layout(h *header) error {
	safetensors.Sort(w.entries)
	w.entries = append(w.entries, safetensors.New(sumsName, tensor.Of(tensor.Uint8, 4*(len(w.entries)+2))))
	safetensors.Place(w.entries)
	meta, err := h.meta()
	if err != nil {
		return err
	}
	w.head, err = safetensors.Head(w.entries, meta)
	return err
}

func (w *writer) write(out io.Writer) error {
	if _, err := out.Write(w.head); err != nil {
		return err
	}
	var sums []uint32
	for _, e := range w.entries[:len(w.entries)-1] {
		sum := newSum()
		if err := w.tensor(io.MultiWriter(out, sum), &e); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		sums = append(sums, sum.Sum32())
	}
	_, err := out.Write(sumsOf(sums, w.head))
	return err
}

func (w *writer) tensor(out io.Writer, e *safetensors.Entry) error {
	t, err := w.get[e.Name]()
	if err != nil {
		return err
	}
	if t.Empty() || t.Bytes() != e.Hi-e.Lo {
		return fmt.Errorf("it is %s: want the %s that it was when saving began", t.Spec(), e)
	}
	defer t.Release()
	return tensor.WriteElems(out, &t)
}
