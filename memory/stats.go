package memory

// Stats are a device's figures at one instant. Bytes are those asked for unless said otherwise. They depend on the
// events alone: not on the system, the build tags, or whether the device is virtual.
type Stats struct {
	Live int64 // sum of the sizes of the live buffers
	Peak int64 // the highest Live since ResetPeak

	// Arena is the end of the highest live buffer: Live plus holes plus rounding to 64. What must fit into the machine
	// is ArenaPeak, its highest since ResetPeak.
	Arena, ArenaPeak int64

	// Reserved is the memory that the system may have had to provide: the granules of 64 KiB that a buffer has lain on
	// and that Trim has not handed back since.
	Reserved int64

	// ReservedPeak is the highest Reserved since ResetPeak.
	ReservedPeak int64

	// Locked is what of it cannot be paged out, if Config.Lock. It depends on the system.
	Locked int64

	Limit int64 // Config.Limit; 0: none

	LiveByKind [NumKinds]int64 // sums to Live
	PeakByKind [NumKinds]int64 // the split when Peak was first reached; sums to Peak

	Buffers, BuffersPeak  int    // live buffers, and the most at once since ResetPeak
	Allocs, Frees         uint64 // since the device was made; Allocs counts TryAlloc too
	AllocBytes, FreeBytes int64  // their bytes; AllocBytes - FreeBytes = Live
	Refused               uint64 // TryAlloc that returned false
	Failed                uint64 // Alloc that returned an *OOMError

	// Hash covers act, address, size and kind of every Alloc, Free and SetKind since ResetPeak, in their order: two runs
	// with equal hashes did the same.
	Hash uint64
}

// Stats returns the figures of now.
func (d *Device) Stats() Stats {
	s := d.stats
	s.Arena, s.Reserved, s.Limit, s.Buffers = d.top, d.resident.bytes(), d.limit, len(d.live)
	s.Locked = d.locked.bytes()
	return s
}

// ResetPeak begins a new measurement: peaks become what is current, Hash that of no events.
func (d *Device) ResetPeak() {
	s := &d.stats
	s.Peak, s.PeakByKind, s.ArenaPeak, s.Hash = s.Live, s.LiveByKind, d.top, hashBasis
	s.ReservedPeak, s.BuffersPeak = d.resident.bytes(), len(d.live)
}

func (d *Device) born(b *Buffer) {
	s := &d.stats
	s.Allocs++
	s.AllocBytes += b.size
	s.Live += b.size
	s.LiveByKind[b.kind] += b.size
	if s.Live > s.Peak { // not >=: the split is that of the first instant
		s.Peak, s.PeakByKind = s.Live, s.LiveByKind
	}
	s.ArenaPeak = max(s.ArenaPeak, d.top)
	s.BuffersPeak = max(s.BuffersPeak, len(d.live))
}

func (d *Device) died(b *Buffer) {
	s := &d.stats
	s.Frees++
	s.FreeBytes += b.size
	s.Live -= b.size
	s.LiveByKind[b.kind] -= b.size
}

func (d *Device) rekinded(b *Buffer, old Kind) {
	d.stats.LiveByKind[old] -= b.size
	d.stats.LiveByKind[b.kind] += b.size
}
