package memory

// Follow has the device place the next buffers where plan says (see Place), for as long as events come as planned: the
// same sizes in the same order, buffers ended where the plan ends them, and the place free. At the first that differs, and
// at the plan's end, best fit goes on with what is free then. A plan decides addresses only; no figure but Arena, and no
// value, depends on it. nil follows nothing. The plan must not be changed while it is followed.
//
// A device in a dry run follows as the real one does, and Join puts back where it stood.
func (d *Device) Follow(plan []Planned) { d.plan = plan }

// Following is how many events of the plan are still to come; 0 when it was left, or has ended.
func (d *Device) Following() int { return len(d.plan) }

// planned gives the address that the plan has for n bytes, or leaves the plan.
func (d *Device) planned(bytes, bound int64) (addr int64, ok bool) {
	if len(d.plan) == 0 {
		return 0, false
	}
	next := d.plan[0]
	n := rounded(bytes)
	if next.Act != Alloc || next.Bytes != bytes || next.Addr < 0 || n > bound-next.Addr || !d.isFree(next.Addr, n) {
		d.plan = nil
		return 0, false
	}
	d.plan = d.plan[1:]
	return next.Addr, true
}

// ended checks the end of a buffer against the plan.
func (d *Device) ended(b *Buffer) {
	if len(d.plan) == 0 {
		return
	}
	if next := d.plan[0]; next.Act != Free || next.Addr != b.addr || next.Bytes != b.size {
		d.plan = nil
		return
	}
	d.plan = d.plan[1:]
}

// isFree tells whether n bytes at addr are not in use.
func (s *placement) isFree(addr, n int64) bool {
	if addr >= s.top {
		return true
	}
	i := s.addrIndex(addr + 1) // the block after the one that addr may lie in
	if i == 0 {
		return false
	}
	b := s.byAddr[i-1]
	return addr+n <= b.end() // no free block touches the top
}

// takeAt uses n free bytes at addr, which may lie above the top.
func (s *placement) takeAt(addr, n int64) {
	if addr >= s.top {
		s.grow(addr, n)
		return
	}
	i := s.addrIndex(addr+1) - 1
	b := s.byAddr[i]
	s.bySize = remove(s.bySize, s.sizeIndex(b))
	s.byAddr = remove(s.byAddr, i)
	for _, rest := range [...]block{{addr + n, b.end() - addr - n}, {b.addr, addr - b.addr}} {
		if rest.size > 0 {
			s.byAddr = insert(s.byAddr, i, rest)
			s.bySize = insert(s.bySize, s.sizeIndex(rest), rest)
		}
	}
}
