package row

import (
	"runtime"
	"runtime/debug"
)

// heapGrowth is how far Go's own heap may grow between two collections once a meter runs, in bytes.
const heapGrowth = 2 << 20

// ResidentMeter measures how far the resident set of this process grows: the highest since the start minus that at the
// start. It is meant for a process of its own per measurement (see [RunChild]); what the process used before counts for
// what it gave back and needs again.
//
// Linux: VmHWM of /proc/self/status, which the start resets through /proc/self/clear_refs; exact to a page, or to some
// hundred KiB a processor before kernel 6.17, which counts pages per processor. Where the reset is not allowed, the
// figure is there only if the process grew beyond its highest before the start. macOS and BSD: the same, with
// getrusage's maxrss as the only source. Elsewhere there is no figure.
type ResidentMeter struct {
	base  int64 // resident set at the start
	floor int64 // only a highest resident set above this is one from after the start
	known bool
}

// StartResident hands the garbage of the process back to the system and starts a meter: call it when the data is read,
// just before the model is built.
//
// It also makes the collector run for every 2 MiB of garbage, for the rest of the process. At Go's default the heap may
// grow by the size of the data set before anything is collected, and that would count as the model's. (A small heap is
// collected at 2 MiB as well: Go's least heap of 4 MiB scales with the percentage, which is 50 at most.)
//
// On Linux, what of the program lies in its file counts as used before, whether it has run or not.
func StartResident() ResidentMeter {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetGCPercent(int(min(max(100*heapGrowth/(m.HeapAlloc+1), 1), 50)))

	faultIn()
	reset := resetHigh()
	base, floor, known := residentSet()
	if reset {
		floor = 0
	}
	return ResidentMeter{base: base, floor: floor, known: known}
}

// Peak returns by how many bytes the resident set has grown at most, or nil where that is not known.
func (m ResidentMeter) Peak() *int64 {
	_, high, known := residentSet()
	if !m.known || !known || high <= m.floor {
		return nil
	}
	return new(max(high-m.base, 0))
}

// ProcessPeak returns the highest resident set of this process since it started, in bytes, or nil where that is not
// known. It is the figure that other programs are compared by; no meter may have been started.
func ProcessPeak() *int64 {
	_, high, known := residentSet()
	if !known {
		return nil
	}
	return &high
}
