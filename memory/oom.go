package memory

import (
	"fmt"
	"slices"
	"strings"
)

// OOMError is an allocation that did not fit. Its text says what was asked, by whom, who holds the memory, and what to
// do about it.
type OOMError struct {
	Device string
	Asked  int64 // bytes
	Kind   Kind
	Site   Site

	Live, Arena int64 // when it was asked, bytes
	Limit       int64 // Config.Limit; 0: none
	Space       int64 // address space, which bounds the arena when there is no limit

	Free        int64 // bytes in holes below the top of the arena
	Holes       int
	LargestHole int64

	ByKind  []Holding // who holds Live, by kind, the largest first
	ByScope []Holding // and by the path of the scope that asked

	Injected bool  // by FailAt; there was room
	Err      error // what the system said when it was the one to refuse, else nil
}

// fail counts a failed allocation and fills in its error.
func (d *Device) fail(bytes int64, k Kind, at Site, e *OOMError) error {
	d.stats.Failed++
	e.Device, e.Asked, e.Kind, e.Site = d.name, bytes, k, at
	e.Live, e.Arena, e.Limit, e.Space = d.stats.Live, d.top, d.limit, d.space
	if d.dry != nil {
		e.Limit, e.Space = 0, unbounded
	}
	e.Free, e.Holes, e.LargestHole = d.free()
	e.ByKind = d.holdings(func(b *Buffer) string { return b.kind.String() })
	e.ByScope = d.holdings(func(b *Buffer) string { return b.site.Scope })
	return e
}

// Unwrap returns what the system said, if it was the one to refuse.
func (e *OOMError) Unwrap() error { return e.Err }

// Error returns a text of several lines; the first stands for itself.
func (e *OOMError) Error() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "memory: %s: out of memory: %s asked for %s of %s", e.Device, e.Site, exact(e.Asked), e.Kind)
	if e.Injected {
		sb.WriteString(": failure injected by FailAt")
		return sb.String()
	}
	fmt.Fprintf(&sb, ": %s", e.cause())
	fmt.Fprintf(&sb, "\n  live %s, arena %s", exact(e.Live), exact(e.Arena))
	if e.Holes > 0 {
		fmt.Fprintf(&sb, ", of which %s free in %d holes, the largest %s", human(e.Free), e.Holes, human(e.LargestHole))
	}
	list(&sb, "by kind", e.ByKind)
	list(&sb, "by scope", e.ByScope)
	fmt.Fprintf(&sb, "\n  try: %s", e.remedy())
	return sb.String()
}

// cause says which bound was hit.
func (e *OOMError) cause() string {
	switch {
	case e.Err != nil:
		return "the system refused: " + e.Err.Error()
	case e.Limit > 0:
		return "over Limit " + exact(e.Limit)
	}
	return "over the address space of " + exact(e.Space)
}

// scattered tells whether the free bytes would do if they lay together.
func (e *OOMError) scattered() bool {
	bound := e.Space
	if e.Limit > 0 {
		bound = e.Limit
	}
	return e.Err == nil && e.Holes > 0 && e.Asked <= e.Free+bound-e.Arena
}

// remedies say what brings a kind down.
var remedies = [NumKinds]string{
	Param:      "a smaller model, or parameters that live in host memory or on disk while nobody uses them (SetHome, offload)",
	Grad:       "release gradients inside backward (ReleaseGradients of the optimizers), or keep them with their parameters in their Home (offload)",
	OptState:   "an optimizer with less state (SGD, Adafactor), or its state in host memory or on disk (Store of its config, offload)",
	Activation: "a smaller batch or more micro-batches (train.Window), or move what backward reads to host memory or disk (offload)",
	Temporary:  "a smaller batch or more micro-batches (train.Window), or free temporaries earlier (Scope.Do, Scope.Free)",
	Scratch:    "a smaller batch or more micro-batches (train.Window), or fewer Lanes",
	Input:      "a smaller batch, or fewer batches loaded ahead",
	Staging:    "smaller or fewer blocks in the rings of stores (offload.Config)",
	CastCopy:   "a smaller batch or more micro-batches (train.Window)",
	Other:      "release what is kept outside the model (Scope.Keep, caches, averages)",
}

// remedy says what the user can do.
func (e *OOMError) remedy() string {
	var tips []string
	if e.scattered() {
		tips = append(tips, "what is free would do, but lies scattered, and Trim moves nothing: allocate first what lives longest")
	}
	switch {
	case e.Err != nil:
	case e.Limit > 0:
		tips = append(tips, "raise Limit")
	default:
		tips = append(tips, "raise Config.Reserve")
	}
	most := e.most()
	return strings.Join(append(tips, fmt.Sprintf("most of it is %s: %s", most, remedies[most])), "; ")
}

// most returns the kind that would hold the most if the request were granted.
func (e *OOMError) most() Kind {
	var sums [NumKinds]uint64
	sums[e.Kind] = uint64(e.Asked)
	for _, h := range e.ByKind {
		if k := slices.Index(kindNames[:], h.Name); k >= 0 {
			sums[k] += uint64(h.Bytes)
		}
	}
	return Kind(slices.Index(sums[:], slices.Max(sums[:])))
}

const holdingsNamed = 4

// list writes the first few holdings on a line.
func list(sb *strings.Builder, title string, hs []Holding) {
	if len(hs) == 0 {
		return
	}
	fmt.Fprintf(sb, "\n  %s: ", title)
	for i, h := range hs {
		if i == holdingsNamed {
			fmt.Fprintf(sb, ", %d more", len(hs)-i)
			break
		}
		if i > 0 {
			sb.WriteString(", ")
		}
		name := h.Name
		if name == "" {
			name = "(no scope)"
		}
		fmt.Fprintf(sb, "%s %s", name, human(h.Bytes))
	}
}

// human returns "12.0 MiB".
func human(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1023.95 { // what would print as 1024.0
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTPE"[unit])
}

// exact returns "12.0 MiB (12582912 bytes)".
func exact(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%s (%d bytes)", human(n), n)
}
