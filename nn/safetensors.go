package nn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/thimble-ml/thimble/internal/durable"
	"github.com/thimble-ml/thimble/internal/safetensors"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// SaveSafetensors writes the parameters of m, frozen ones included, and its buffers to a safetensors file: torch's
// safetensors.torch.save_model. m is a model, or a [State], that of an [EMA] for example. Tied parameters are there once,
// under the first name. meta is noted in the file, nil for nothing; libraries around PyTorch ask for {"format": "pt"}.
//
// Values go from where they are to the file one after the other; of a parameter in a Home one at a time is on the device.
// Same values, same bytes. The file is there whole or, after an error, as it was before.
func SaveSafetensors(path string, m any, meta map[string]string) error {
	list := listOf(m)
	entries := make([]safetensors.Entry, len(list))
	at := map[string]named{}
	for i, e := range list {
		if why := e.gone(); why != "" {
			return fmt.Errorf("nn: SaveSafetensors: %s: %s", e.name, why)
		}
		entries[i] = safetensors.New(e.name, e.spec())
		at[e.name] = e
	}
	safetensors.Sort(entries)
	safetensors.Place(entries)
	head, err := safetensors.Head(entries, meta)
	if err != nil {
		return fmt.Errorf("nn: SaveSafetensors: %w", err)
	}
	err = durable.Write(durable.OS, path, func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		for _, e := range entries {
			if err := at[e.Name].write(w); err != nil {
				return fmt.Errorf("%s: %w", e.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("nn: SaveSafetensors: %w", err)
	}
	return nil
}

// listOf is the values of a model or of a State.
func listOf(m any) []named {
	sd, ok := m.(State)
	if !ok {
		return walk(m).list
	}
	list := make([]named, len(sd))
	for i, e := range sd {
		list[i] = named{name: e.Name, buf: e.Tensor}
	}
	return list
}

// write writes the elements of e.
func (e named) write(w io.Writer) error {
	if e.p == nil {
		return tensor.WriteElems(w, e.buf)
	}
	t, err := e.p.Fetch()
	if err != nil {
		return err
	}
	defer t.Release()
	return tensor.WriteElems(w, &t)
}

// LoadConfig says how the names and dtypes of a file become a model's. Its zero value changes nothing.
type LoadConfig struct {
	// Prefix is taken off the names in the file, and those without it are left out: "model." for the weights in a file
	// of train.Save.
	Prefix string
	// Rename, if set, gives the model's name for one in the file (without Prefix); "" leaves the tensor out.
	Rename func(name string) string
	// Convert lets a float dtype of the file differ from the model's: values are rounded as tensor.Convert does.
	Convert bool
}

// LoadSafetensors reads the parameters of m, frozen ones included, and its buffers from a safetensors file, whoever wrote
// it, straight into their storage. It is strict, as [LoadStateDict] is: one error lists every name, shape and dtype that
// does not match, and then nothing has been loaded. Should the file fail under the reading (a broken disk), the error says
// how far it came.
//
// With Convert, the values of a tensor pass through a piece of memory of at most 256 KiB on the model's device.
func LoadSafetensors(path string, m any, cfg LoadConfig) error {
	f, err := OpenSafetensors(path)
	if err != nil {
		return err
	}
	defer f.Close()
	l := newLoader(m)
	for i := range f.file.Entries {
		e := &f.file.Entries[i]
		if name, ok := cfg.name(e.Name); ok {
			l.offer(inFile{f.file, e, name, cfg.Convert})
		}
	}
	if err := l.load(m); err != nil {
		return fmt.Errorf("nn: LoadSafetensors: %s: %w", path, err)
	}
	return nil
}

// name is the model's name for one in the file; ok is false if it is to be left out.
func (c LoadConfig) name(in string) (name string, ok bool) {
	if name, ok = strings.CutPrefix(in, c.Prefix); !ok {
		return "", false
	}
	if c.Rename != nil {
		name = c.Rename(name)
	}
	return name, name != ""
}

// inFile is an entry of a file as a source.
type inFile struct {
	f       *safetensors.File
	e       *safetensors.Entry
	as      string
	convert bool
}

func (s inFile) name() string { return s.as }

func (s inFile) what() string { return s.e.String() }

func (s inFile) misfit(l *loader, i int) string {
	want := l.list[i].spec()
	got, err := s.e.Spec()
	switch {
	case err != nil:
		return fmt.Sprintf("got %s %s: want %s", s.e.Name, s.e, want)
	case got.Equal(want):
	case got.SameShape(want) && got.DType.IsFloat() && want.DType.IsFloat():
		if !s.convert {
			return fmt.Sprintf("got %s %s: want %s (LoadConfig.Convert rounds)", s.e.Name, got, want)
		}
	default:
		return fmt.Sprintf("got %s %s: want %s", s.e.Name, got, want)
	}
	return ""
}

// same compares the bytes in the file.
func (s inFile) same(o source) (bool, error) {
	x := o.(inFile)
	if s.e.DType != x.e.DType {
		return false, nil
	}
	a, b := s.f.Data(s.e), x.f.Data(x.e)
	var p, q [4 << 10]byte
	for {
		n, err := io.ReadFull(a, p[:])
		if _, err := io.ReadFull(b, q[:n]); err != nil && n > 0 {
			return false, err
		}
		switch {
		case !bytes.Equal(p[:n], q[:n]):
			return false, nil
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return true, nil
		case err != nil:
			return false, err
		}
	}
}

func (s inFile) fill(dst *tensor.Tensor) error { return readEntry(s.f, s.e, dst) }

// convertPiece is how many elements are converted at a time.
const convertPiece = 1 << 15

// readEntry fills dst with e, whose shape it has.
func readEntry(f *safetensors.File, e *safetensors.Entry, dst *tensor.Tensor) error {
	spec, err := e.Spec()
	if err != nil {
		return err
	}
	from := f.Data(e)
	if spec.DType == dst.DType() {
		return tensor.ReadElems(from, dst)
	}
	flat, err := dst.Reshape(dst.Elems())
	if err != nil {
		return err
	}
	piece, err := tensor.New(dst.Buffer().Device(), memory.Staging, memory.Site{Op: "safetensors", Scope: e.Name},
		tensor.Of(spec.DType, min(convertPiece, dst.Elems())))
	if err != nil {
		return err
	}
	defer piece.Release()
	for at := 0; at < flat.Elems(); at += convertPiece {
		n := min(convertPiece, flat.Elems()-at)
		if err := convertAt(&flat, at, piece, n, from); err != nil {
			return err
		}
	}
	return nil
}

// convertAt reads n elements into piece and converts them to elements at and following of flat.
func convertAt(flat *tensor.Tensor, at int, piece *tensor.Tensor, n int, from io.Reader) error {
	dst, err := flat.Slice(0, at, at+n)
	if err != nil {
		return err
	}
	src, err := piece.Slice(0, 0, n)
	if err != nil {
		return err
	}
	if err := tensor.ReadElems(from, &src); err != nil {
		return err
	}
	return tensor.Convert(&dst, &src)
}

// Safetensors is a file that is open for reading, of which only the header was read: for looking at, and for reading
// single tensors. [LoadSafetensors] reads a whole model.
type Safetensors struct {
	path string
	in   io.Closer
	file *safetensors.File
}

// OpenSafetensors opens a safetensors file and reads its header, which is checked against the file's size. The caller
// closes it.
func OpenSafetensors(path string) (*Safetensors, error) {
	in, err := durable.OS.Open(path)
	if err != nil {
		return nil, fmt.Errorf("nn: safetensors: %w", err)
	}
	size, err := in.Size()
	if err == nil {
		var f *safetensors.File
		if f, err = safetensors.Read(in, size); err == nil {
			return &Safetensors{path, in, f}, nil
		}
	}
	return nil, fmt.Errorf("nn: safetensors: %s: %w", path, errors.Join(err, in.Close()))
}

// Close closes the file.
func (f *Safetensors) Close() error { return f.in.Close() }

// Names lists the tensors, in the order of their bytes in the file.
func (f *Safetensors) Names() []string {
	names := make([]string, len(f.file.Entries))
	for i := range f.file.Entries {
		names[i] = f.file.Entries[i].Name
	}
	return names
}

// Metadata is what the writer noted in the header, nil if nothing. It must not be modified.
func (f *Safetensors) Metadata() map[string]string { return f.file.Meta }

// Spec gives dtype and shape of a tensor. The format has dtypes that Thimble does not: those are an error that names it.
func (f *Safetensors) Spec(name string) (tensor.Spec, error) {
	e, err := f.find(name)
	if err != nil {
		return tensor.Spec{}, err
	}
	s, err := e.Spec()
	if err != nil {
		return tensor.Spec{}, fmt.Errorf("nn: safetensors: %s: %w", f.path, err)
	}
	return s, nil
}

func (f *Safetensors) find(name string) (*safetensors.Entry, error) {
	e, ok := f.file.Find(name)
	if !ok {
		return nil, fmt.Errorf("nn: safetensors: %s: there is no %q among %d tensors (Names lists them)", f.path, name, len(f.file.Entries))
	}
	return e, nil
}

// Load reads a tensor onto d, with its own dtype. The caller releases it.
func (f *Safetensors) Load(name string, d *memory.Device, k memory.Kind) (*tensor.Tensor, error) {
	s, err := f.Spec(name)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(d, k, memory.Site{Op: "safetensors", Scope: name}, s)
	if err != nil {
		return nil, fmt.Errorf("nn: safetensors: %s: %s: %w", f.path, name, err)
	}
	if err := f.Read(name, t); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// Read reads a tensor into dst, of equal shape. If dst has another dtype, elements are converted as tensor.Convert does.
// After an error dst's elements are undefined.
func (f *Safetensors) Read(name string, dst *tensor.Tensor) error {
	s, err := f.Spec(name)
	if err != nil {
		return err
	}
	if !s.SameShape(dst.Spec()) {
		return fmt.Errorf("nn: safetensors: %s: %s is %s: want the shape of %s", f.path, name, s, dst.Spec())
	}
	e, _ := f.file.Find(name)
	if err := readEntry(f.file, e, dst); err != nil {
		return fmt.Errorf("nn: safetensors: %s: %s: %w", f.path, name, err)
	}
	return nil
}
