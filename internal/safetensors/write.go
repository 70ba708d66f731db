package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/thimble-ml/thimble/tensor"
)

// New is the entry of a tensor that is to be written; Place gives it its bytes.
func New(name string, s tensor.Spec) Entry {
	return Entry{Name: name, DType: names[s.DType], Shape: s.Shape}
}

// Sort puts entries into the order in which the format's own library writes them: those with the widest elements first, so
// that all are aligned, and by name.
func Sort(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(sizes[b.DType], sizes[a.DType]), cmp.Compare(a.Name, b.Name))
	})
}

// Place sets the entries' offsets, one after the other.
func Place(entries []Entry) {
	at := int64(0)
	for i := range entries {
		e := &entries[i]
		n := sizes[e.DType]
		for _, d := range e.Shape {
			n *= int64(d)
		}
		e.Lo, e.Hi = at, at+n
		at += n
	}
}

// Head is the beginning of a file with these entries, placed, and notes: everything before the data. Same arguments, same
// bytes.
func Head(entries []Entry, meta map[string]string) ([]byte, error) {
	b := make([]byte, 8, 64+128*len(entries))
	b = append(b, '{')
	if len(meta) > 0 {
		b = append(quoted(b, metaKey), ":{"...)
		for i, k := range slices.Sorted(maps.Keys(meta)) {
			b = comma(b, i)
			b = append(quoted(b, k), ':')
			b = quoted(b, meta[k])
		}
		b = append(b, '}')
	}
	seen := map[string]bool{metaKey: true}
	for i := range entries {
		e := &entries[i]
		if seen[e.Name] {
			return nil, fmt.Errorf("the name %q is taken: want names that differ", e.Name)
		}
		seen[e.Name] = true
		b = comma(b, i+len(meta))
		b = e.append(b)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b)-8 > longest {
		return nil, fmt.Errorf("a header of %d bytes: the format allows %d", len(b)-8, longest)
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	return b, nil
}

func (e *Entry) append(b []byte) []byte {
	b = append(quoted(b, e.Name), `:{"dtype":`...)
	b = append(quoted(b, e.DType), `,"shape":[`...)
	for i, d := range e.Shape {
		b = fmt.Appendf(comma(b, i), "%d", d)
	}
	return fmt.Appendf(b, `],"data_offsets":[%d,%d]}`, e.Lo, e.Hi)
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// quoted appends s as JSON, without the escapes that only HTML needs.
func quoted(b []byte, s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string and a buffer have no errors
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}
