package tensor

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/thimble-ml/thimble/internal/durable"
	"github.com/thimble-ml/thimble/memory"
)

// npyMagic begins every .npy file; two bytes of version follow, then the header's length and the header (NEP 1; NumPy's
// numpy.lib.format).
const npyMagic = "\x93NUMPY"

// npyLongest bounds the header. That of an array with one element type, which is all that a Tensor can be, is short.
const npyLongest = 1<<16 - 1

// SaveNpy writes t, of any strides, as a NumPy file at path, which is there whole or, after an error, as it was:
// numpy.save. See WriteNpy.
func SaveNpy(path string, t *Tensor) error {
	err := durable.Write(durable.OS, path, func(w io.Writer) error { return WriteNpy(w, t) })
	if err != nil {
		return fmt.Errorf("tensor: save npy: %w", err)
	}
	return nil
}

// LoadNpy reads the NumPy file at path onto d: numpy.load. See ReadNpy. The caller releases the tensor.
func LoadNpy(path string, d *memory.Device, k memory.Kind, at memory.Site) (*Tensor, error) {
	f, err := durable.OS.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tensor: load npy: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("tensor: load npy: %w", err)
	}
	t, err := ReadNpy(f, size, d, k, at)
	if err != nil {
		return nil, fmt.Errorf("tensor: load npy %s: %w", path, err)
	}
	return t, nil
}

// WriteNpy writes t, of any strides, in NumPy's format, version 1.0, row-major and little-endian. NumPy has no bfloat16:
// BFloat16 is written as its type V2, two bytes without a meaning, as package ml_dtypes does; x.view(ml_dtypes.bfloat16)
// is the way back in Python.
func WriteNpy(w io.Writer, t *Tensor) error {
	if !t.readable() {
		return fmt.Errorf("tensor: write npy of %v: it has no data, being empty or made on a virtual device or in a dry run", t.spec)
	}
	h, err := npyHead(t.spec)
	if err != nil {
		return err
	}
	if err := writeAll(w, h); err != nil {
		return err
	}
	return WriteElems(w, t)
}

// npyCodes are the type codes of NumPy, without the byte order that precedes them.
var npyCodes = [...]string{
	Float32: "f4", Float64: "f8", Float16: "f2", BFloat16: "V2", Int64: "i8", Int32: "i4", Uint8: "u1", Bool: "b1",
}

// npyHead is all that precedes the elements: a Python dictionary, filled up so that they begin at a multiple of 64 bytes.
func npyHead(s Spec) ([]byte, error) {
	order := "<"
	if s.DType.Size() == 1 {
		order = "|"
	}
	var shape strings.Builder
	for i, n := range s.Shape {
		if i > 0 {
			shape.WriteByte(' ')
		}
		fmt.Fprintf(&shape, "%d,", n)
	}
	dims := shape.String()
	if len(s.Shape) > 1 {
		dims = strings.TrimSuffix(dims, ",")
	}
	dict := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, npyCodes[s.DType], dims)
	const before = len(npyMagic) + 4
	pad := 63 - (before+len(dict))%64
	if len(dict)+pad+1 > npyLongest {
		return nil, fmt.Errorf("tensor: write npy: a shape of rank %d: its header would be longer than %d bytes", len(s.Shape), npyLongest)
	}
	h := append([]byte(npyMagic), 1, 0)
	h = binary.LittleEndian.AppendUint16(h, uint16(len(dict)+pad+1))
	h = append(h, dict...)
	h = append(h, strings.Repeat(" ", pad)...)
	return append(h, '\n'), nil
}

// ReadNpy reads a tensor from r, a NumPy file of size bytes, versions 1 to 3, onto d: straight into the storage, of which
// nothing is taken before the header was found to fit the size. The caller releases the tensor.
//
// Element types are those of DType, of either byte order; V2 is taken for BFloat16. Nothing is converted. Arrays in
// Fortran order come out with their own shape, contiguous in row-major order like all others. On a virtual device only
// the header is read.
func ReadNpy(r io.ReaderAt, size int64, d *memory.Device, k memory.Kind, at memory.Site) (*Tensor, error) {
	a, err := readNpyHead(r, size)
	if err != nil {
		return nil, err
	}
	if have := size - a.data; have != a.spec.Bytes() {
		return nil, fmt.Errorf("%v by its header: %d bytes of elements: want %d", a.spec, have, a.spec.Bytes())
	}
	t, err := New(d, k, at, a.spec)
	if err != nil {
		return nil, err
	}
	dst := *t
	if a.fortran {
		dst = t.reversed()
	}
	if err := readElems(io.NewSectionReader(r, a.data, size-a.data), &dst, a.order); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// reversed is the view of t with its dimensions in the opposite order.
func (t *Tensor) reversed() Tensor {
	shape, strides := t.room()
	slices.Reverse(shape)
	slices.Reverse(strides)
	return t.with(shape, strides, t.offset)
}

// npyArray is what a header says.
type npyArray struct {
	spec    Spec
	order   binary.ByteOrder
	fortran bool
	data    int64 // where the elements begin
}

func readNpyHead(r io.ReaderAt, size int64) (a npyArray, err error) {
	var first [len(npyMagic) + 6]byte
	n := min(int64(len(first)), size)
	if err := readAt(r, first[:n], 0); err != nil {
		return a, err
	}
	if n < int64(len(npyMagic)+4) || string(first[:len(npyMagic)]) != npyMagic {
		return a, fmt.Errorf("it begins with %q: want %q: not a .npy file", first[:min(n, int64(len(npyMagic)))], npyMagic)
	}
	begin, length := int64(len(npyMagic)+4), int64(binary.LittleEndian.Uint16(first[8:]))
	switch version := first[6]; version {
	case 1:
	case 2, 3:
		begin, length = begin+2, int64(binary.LittleEndian.Uint32(first[8:]))
	default:
		return a, fmt.Errorf("version %d.%d of the .npy format: want 1 to 3", version, first[7])
	}
	switch {
	case length > size-begin:
		return a, fmt.Errorf("a header of %d bytes in a file of %d: %w", length, size, io.ErrUnexpectedEOF)
	case length > npyLongest:
		return a, fmt.Errorf("a header of %d bytes: want at most %d, enough for any array of one element type", length, npyLongest)
	}
	text := make([]byte, length)
	if err := readAt(r, text, begin); err != nil {
		return a, err
	}
	a.data = begin + length
	return a, a.parse(string(text))
}

func readAt(r io.ReaderAt, b []byte, at int64) error {
	_, err := io.ReadFull(io.NewSectionReader(r, at, int64(len(b))), b)
	return early(err)
}

// parse reads the dictionary.
func (a *npyArray) parse(text string) error {
	p := &pyDict{rest: text}
	if err := p.parse(); err != nil {
		return fmt.Errorf("header %.200q: %w", text, err)
	}
	if err := a.fill(p); err != nil {
		return fmt.Errorf("header %.200q: %w", strings.TrimRight(text, " \n"), err)
	}
	return nil
}

func (a *npyArray) fill(p *pyDict) error {
	descr, ok := p.values["descr"].(string)
	if !ok {
		return fmt.Errorf("descr is not the name of one element type: structured arrays have no dtype here")
	}
	if a.fortran, ok = p.values["fortran_order"].(bool); !ok {
		return fmt.Errorf("fortran_order: want True or False")
	}
	shape, ok := p.values["shape"].([]int)
	if !ok {
		return fmt.Errorf("shape: want a tuple of numbers")
	}
	if len(p.values) != 3 {
		return fmt.Errorf("want descr, fortran_order and shape, and nothing else")
	}
	if err := a.element(descr); err != nil {
		return err
	}
	a.spec.Shape = shape
	return a.spec.Validate()
}

// element takes the dtype and the byte order from "<f4".
func (a *npyArray) element(descr string) error {
	a.order = binary.LittleEndian
	order, code := "", descr
	if descr != "" && strings.Contains("<>|", descr[:1]) {
		order, code = descr[:1], descr[1:]
	}
	if order == ">" {
		a.order = binary.BigEndian
	}
	i := slices.Index(npyCodes[:], code)
	if i < 0 {
		return fmt.Errorf("descr %q: want one of %v with a byte order: convert it with astype before saving", descr, npyCodes)
	}
	a.spec.DType = DType(i)
	return nil
}

// pyDict reads what NumPy writes of Python: a dictionary of strings, True, False and tuples of numbers.
type pyDict struct {
	rest   string
	values map[string]any // string, bool or []int
}

func (p *pyDict) parse() error {
	p.values = map[string]any{}
	if !p.skip('{') {
		return fmt.Errorf("want a dictionary")
	}
	for !p.skip('}') {
		key, err := p.text()
		if err != nil {
			return err
		}
		if !p.skip(':') {
			return fmt.Errorf("want : after the key %q", key)
		}
		if _, twice := p.values[key]; twice {
			return fmt.Errorf("the key %q is given twice", key)
		}
		if p.values[key], err = p.value(); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if !p.skip(',') && !strings.HasPrefix(p.rest, "}") {
			return fmt.Errorf("want , or } after the value of %q", key)
		}
	}
	if p.space(); p.rest != "" {
		return fmt.Errorf("want nothing after the dictionary")
	}
	return nil
}

func (p *pyDict) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// skip takes c, and the space around it.
func (p *pyDict) skip(c byte) bool {
	p.space()
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	p.space()
	return true
}

// text takes a string in either quotes, without escapes.
func (p *pyDict) text() (string, error) {
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		return "", fmt.Errorf("want a string")
	}
	end := strings.IndexByte(p.rest[1:], p.rest[0])
	if end < 0 || strings.Contains(p.rest[1:1+end], `\`) {
		return "", fmt.Errorf("a string that does not end, or has escapes")
	}
	s := p.rest[1 : 1+end]
	p.rest = p.rest[end+2:]
	return s, nil
}

func (p *pyDict) value() (any, error) {
	for word, v := range map[string]bool{"True": true, "False": false} {
		if rest, ok := strings.CutPrefix(p.rest, word); ok {
			p.rest = rest
			return v, nil
		}
	}
	switch {
	case p.rest != "" && (p.rest[0] == '\'' || p.rest[0] == '"'):
		return p.text()
	case p.skip('('):
		return p.tuple()
	}
	return nil, fmt.Errorf("want a string, True, False or a tuple of numbers")
}

// tuple takes numbers up to the closing bracket. Python 2 wrote an L behind some.
func (p *pyDict) tuple() ([]int, error) {
	shape := []int{}
	for !p.skip(')') {
		end := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789"))
		n, err := strconv.Atoi(p.rest[:end])
		if err != nil {
			return nil, fmt.Errorf("want numbers that fit into an int")
		}
		p.rest = strings.TrimPrefix(p.rest[end:], "L")
		shape = append(shape, n)
		if !p.skip(',') && !strings.HasPrefix(p.rest, ")") {
			return nil, fmt.Errorf("want , or ) after %d", n)
		}
	}
	return shape, nil
}
