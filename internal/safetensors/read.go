package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// longest is the format's bound of a header, in bytes.
const longest = 100_000_000

// metaKey is where a header has its own notes.
const metaKey = "__metadata__"

// File is a safetensors file that is open for reading. It keeps nothing of the tensors' elements.
type File struct {
	Entries []Entry           // in the order of their bytes
	Meta    map[string]string // what the writer noted; nil: nothing
	Head    []byte            // length and header as they stand in the file

	r     io.ReaderAt
	index map[string]int
}

// Read reads the header of r, a file of size bytes.
func Read(r io.ReaderAt, size int64) (*File, error) {
	head, err := readHead(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{Head: head, r: r}
	if err := f.parse(head[8:]); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if err := f.arrange(size - int64(len(head))); err != nil {
		return nil, err
	}
	return f, nil
}

func readHead(r io.ReaderAt, size int64) ([]byte, error) {
	var length [8]byte
	if size < 8 {
		return nil, fmt.Errorf("%d bytes: want a header's length in 8: not a safetensors file: %w", size, io.ErrUnexpectedEOF)
	}
	if err := readAt(r, length[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	switch {
	case n > longest:
		return nil, fmt.Errorf("a header of %d bytes: want at most %d: not a safetensors file", n, longest)
	case int64(n) > size-8:
		return nil, fmt.Errorf("a header of %d bytes in a file of %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	head := make([]byte, 8+n)
	return head, readAt(r, head, 0)
}

func readAt(r io.ReaderAt, b []byte, at int64) error {
	_, err := io.ReadFull(io.NewSectionReader(r, at, int64(len(b))), b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// parse goes through the header's JSON, which must be an object that names nothing twice.
func (f *File) parse(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		return errors.New("want a JSON object that begins at once")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	f.index = map[string]int{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		if err := f.member(d, token.(string)); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if rest := text[d.InputOffset():]; strings.Trim(string(rest), " ") != "" {
		return errors.New("want nothing but spaces after the JSON object")
	}
	return nil
}

// member takes one member of the object.
func (f *File) member(d *json.Decoder, name string) error {
	if name == metaKey {
		if f.Meta != nil {
			return fmt.Errorf("%s is given twice", metaKey)
		}
		f.Meta = map[string]string{}
		if err := d.Decode(&f.Meta); err != nil {
			return fmt.Errorf("%s: %w", metaKey, err)
		}
		return nil
	}
	var info struct {
		DType   string  `json:"dtype"`
		Shape   []int   `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	if err := d.Decode(&info); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	if _, twice := f.index[name]; twice {
		return fmt.Errorf("%q is given twice", name)
	}
	if info.DType == "" || info.Shape == nil || len(info.Offsets) != 2 {
		return fmt.Errorf("%q: want dtype, shape and two data_offsets", name)
	}
	f.index[name] = -1
	f.Entries = append(f.Entries, Entry{name, info.DType, info.Shape, info.Offsets[0], info.Offsets[1]})
	return nil
}

// arrange sorts the entries by their place in the data, of that many bytes, which they must fill.
func (f *File) arrange(data int64) error {
	slices.SortStableFunc(f.Entries, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Hi, b.Hi)) })
	at := int64(0)
	for i := range f.Entries {
		e := &f.Entries[i]
		switch {
		case e.Lo != at || e.Hi < e.Lo:
			return fmt.Errorf("%q: bytes %d to %d: want them to begin at %d, where the tensor before ends", e.Name, e.Lo, e.Hi, at)
		case e.Hi > data:
			return fmt.Errorf("%q: bytes %d to %d in a file with %d bytes of elements: %w", e.Name, e.Lo, e.Hi, data, io.ErrUnexpectedEOF)
		}
		if err := e.check(); err != nil {
			return err
		}
		at = e.Hi
		f.index[e.Name] = i
	}
	if at != data {
		return fmt.Errorf("the header speaks of %d bytes of elements, the file has %d", at, data)
	}
	return nil
}

// Find gives the entry of that name.
func (f *File) Find(name string) (*Entry, bool) {
	i, ok := f.index[name]
	if !ok {
		return nil, false
	}
	return &f.Entries[i], true
}

// Data is the bytes of e's elements.
func (f *File) Data(e *Entry) *io.SectionReader {
	return io.NewSectionReader(f.r, int64(len(f.Head))+e.Lo, e.Hi-e.Lo)
}
