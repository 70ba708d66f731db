package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Holder is a live buffer, as a report shows it.
type Holder struct {
	ID        uint64
	Addr      int64 // offset in the arena, bytes
	Bytes     int64 // as asked for
	Kind      Kind
	Site      Site
	Refs      int
	Spec, Why string // what Describe said last
}

// Holders returns the live buffers, by address.
func (d *Device) Holders() []Holder {
	hs := make([]Holder, len(d.live))
	for i, b := range d.live {
		hs[i] = Holder{ID: b.id, Addr: b.addr, Bytes: b.size, Kind: b.kind, Site: b.site, Refs: b.Refs()}
		if b.note != nil {
			hs[i].Spec, hs[i].Why = b.note.spec, b.note.why
		}
	}
	slices.SortFunc(hs, func(a, b Holder) int { return cmp.Compare(a.Addr, b.Addr) })
	return hs
}

const leaksNamed = 5

// leak says what is alive when nothing should be.
func (d *Device) leak() error {
	hs := d.Holders()
	slices.SortStableFunc(hs, func(a, b Holder) int { return cmp.Compare(b.Bytes, a.Bytes) })
	var sb strings.Builder
	for i, h := range hs {
		if i == leaksNamed {
			fmt.Fprintf(&sb, "\n  and %d more", len(hs)-i)
			break
		}
		fmt.Fprintf(&sb, "\n  %d bytes of %s made by %s (references: %d)", h.Bytes, h.Kind, h.Site, h.Refs)
	}
	return fmt.Errorf("memory: %s: buffers still alive at Close: %d, %s; the mapping stays until they are released and Close is called again:%s",
		d.name, len(hs), exact(d.stats.Live), sb.String())
}

// Holding is the sum of the live buffers that share a name.
type Holding struct {
	Name    string // of a kind, or the path of a scope
	Bytes   int64
	Buffers int
}

// holdings sums the live buffers by name, the largest first, equals by name.
func (d *Device) holdings(name func(*Buffer) string) []Holding {
	sums := map[string]Holding{}
	for _, b := range d.live {
		n := name(b)
		h := sums[n]
		sums[n] = Holding{n, h.Bytes + b.size, h.Buffers + 1}
	}
	hs := make([]Holding, 0, len(sums))
	for _, h := range sums {
		hs = append(hs, h)
	}
	slices.SortFunc(hs, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return hs
}
