package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/thimble-ml/thimble/memory"
)

// WriteProfile writes buffers as a pprof profile, gzipped, for go tool pprof: bytes and number, by the op that asked and
// the scopes around it. live is what Device.Holders gives now, or Recording.AtPeak for the peak; the bytes of the profile are
// theirs. A parameter and its state lie under the parts of the parameter's name.
//
//	go tool pprof -http=: peak.pb.gz                  a flame graph of modules, ops at the tips
//	go tool pprof -http=: -tagroot=kind peak.pb.gz    the same, by kind first
//
// Each sample is labelled with kind, dtype and spec.
func WriteProfile(w io.Writer, live []memory.Holder) error {
	b := newProfile()
	for i := range live {
		b.add(&live[i], 1)
	}
	return b.write(w)
}

// WriteDiff writes what after holds more than before as a profile, and with negative bytes what it holds less: of two
// instants at which a program should hold the same, such as the ends of two steps, it is what leaks. Buffers of equal
// op, scope, kind and spec cancel out.
func WriteDiff(w io.Writer, before, after []memory.Holder) error {
	b := newProfile()
	for i := range before {
		b.add(&before[i], -1)
	}
	for i := range after {
		b.add(&after[i], 1)
	}
	return b.write(w)
}

// builder makes a profile: functions are scopes and ops, each with one location.
type builder struct {
	p         profile.Profile
	locations map[string]*profile.Location
	samples   map[string]*profile.Sample
}

func newProfile() *builder {
	bytes := &profile.ValueType{Type: "bytes", Unit: "bytes"}
	b := &builder{locations: map[string]*profile.Location{}, samples: map[string]*profile.Sample{}}
	b.p.SampleType = []*profile.ValueType{{Type: "buffers", Unit: "count"}, bytes}
	b.p.DefaultSampleType, b.p.PeriodType, b.p.Period = "bytes", bytes, 1
	return b
}

// add counts a buffer.
func (b *builder) add(h *memory.Holder, sign int64) {
	stack := frames(h)
	key := strings.Join(append([]string{h.Kind.String(), h.Spec}, stack...), "\x00")
	s := b.samples[key]
	if s == nil {
		s = &profile.Sample{Value: []int64{0, 0}, Label: map[string][]string{"kind": {h.Kind.String()}}}
		if h.Spec != "" {
			dtype, _, _ := strings.Cut(h.Spec, "[")
			s.Label["spec"], s.Label["dtype"] = []string{h.Spec}, []string{dtype}
		}
		for _, name := range stack {
			s.Location = append(s.Location, b.location(name))
		}
		b.samples[key] = s
		b.p.Sample = append(b.p.Sample, s)
	}
	s.Value[0] += sign
	s.Value[1] += sign * h.Bytes
}

// frames are the op and the scopes around it by their full paths, innermost first.
func frames(h *memory.Holder) []string {
	op, scope := h.Site.Op, h.Site.Scope
	if op == "" {
		op = "(no op)"
	}
	stack := []string{op}
	if scope == "" {
		return stack
	}
	for end := len(scope); end > 0; end = lastCut(scope[:end]) {
		stack = append(stack, scope[:end])
	}
	return stack
}

// lastCut is where the path of the scope around ends: before the last slash, or the last dot of a parameter's name that no
// number follows ("blocks.3" is one part).
func lastCut(path string) int {
	for i := len(path) - 2; i > 0; i-- {
		if path[i] == '/' || path[i] == '.' && (path[i+1] < '0' || path[i+1] > '9') {
			return i
		}
	}
	return 0
}

func (b *builder) location(name string) *profile.Location {
	l := b.locations[name]
	if l == nil {
		id := uint64(len(b.locations) + 1)
		f := &profile.Function{ID: id, Name: name, SystemName: name}
		l = &profile.Location{ID: id, Line: []profile.Line{{Function: f}}}
		b.locations[name] = l
		b.p.Function, b.p.Location = append(b.p.Function, f), append(b.p.Location, l)
	}
	return l
}

// write leaves out what cancelled out.
func (b *builder) write(w io.Writer) error {
	var left []*profile.Sample
	for _, s := range b.p.Sample {
		if s.Value[0] != 0 || s.Value[1] != 0 {
			left = append(left, s)
		}
	}
	b.p.Sample = left
	if err := b.p.Write(w); err != nil {
		return fmt.Errorf("report: profile: %w", err)
	}
	return nil
}
