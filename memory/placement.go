package memory

// A block is a run of free bytes below the top of the arena.
type block struct{ addr, size int64 }

func (b block) end() int64 { return b.addr + b.size }

// placement decides addresses. It holds no memory, so that a virtual device places exactly as a real one does.
//
// Rules, which the tests check against a naive model:
//
//  1. best fit: the smallest block that is large enough, and of equals the one at the lowest address;
//  2. what is cut from a block is cut from its low end, but from its high end if it is small, so that what is large begins
//     where the block did and leaves the most in one piece;
//  3. when no block fits, the arena grows at its top. If what made it grow last, and ends there still, is a little smaller
//     than what comes, as much is left free between them, so that one finds room where the other was: tokens with their
//     class token where those without it were;
//  4. free blocks that touch are one block, and a free block that touches the top lowers the top instead.
type placement struct {
	top    int64   // end of the highest block in use
	byAddr []block // free blocks by address
	bySize []block // the same blocks by size, then address
	grown  []block // what the arena grew by, up to the top
}

const (
	small = 32 << 10 // less is small
	alike = 16       // a little smaller: by at most this part
)

// fit returns where n bytes would go, and the index in bySize of the block that they would come from, or -1 for the
// top. It changes nothing.
func (s *placement) fit(n int64) (addr int64, from int) {
	i := s.sizeIndex(block{size: n})
	switch {
	case i == len(s.bySize):
		return s.top + s.gap(n), -1
	case n < small:
		return s.bySize[i].end() - n, i
	}
	return s.bySize[i].addr, i
}

// gap is what to leave free below n bytes at the top.
func (s *placement) gap(n int64) int64 {
	k := len(s.grown) - 1
	if n < small || k < 0 || s.grown[k].end() != s.top {
		return 0
	}
	if d := n - s.grown[k].size; 0 < d && d <= n/alike {
		return d
	}
	return 0
}

// take uses n bytes of what fit found.
func (s *placement) take(addr, n int64, from int) {
	if from < 0 {
		s.grow(addr, n)
		return
	}
	b := s.bySize[from]
	i := s.addrIndex(b.addr)
	if b.size == n {
		s.byAddr = remove(s.byAddr, i)
		s.bySize = remove(s.bySize, from)
		return
	}
	rest := block{b.addr, b.size - n}
	if addr == b.addr {
		rest.addr += n
	}
	s.byAddr[i] = rest
	s.resize(from, rest)
}

// grow uses n bytes at addr, at the top or above it.
func (s *placement) grow(addr, n int64) {
	if gap := (block{s.top, addr - s.top}); gap.size > 0 {
		s.byAddr = append(s.byAddr, gap)
		s.bySize = insert(s.bySize, s.sizeIndex(gap), gap)
	}
	s.top = addr + n
	s.grown = append(s.grown, block{addr, n})
}

// give takes n bytes at addr back.
func (s *placement) give(addr, n int64) {
	i := s.addrIndex(addr)
	left := i > 0 && s.byAddr[i-1].end() == addr
	right := i < len(s.byAddr) && s.byAddr[i].addr == addr+n
	switch {
	case addr+n == s.top:
		s.lower(addr, left)
	case left && right:
		s.bySize = remove(s.bySize, s.sizeIndex(s.byAddr[i]))
		s.replace(i-1, block{s.byAddr[i-1].addr, s.byAddr[i-1].size + n + s.byAddr[i].size})
		s.byAddr = remove(s.byAddr, i)
	case left:
		s.replace(i-1, block{s.byAddr[i-1].addr, s.byAddr[i-1].size + n})
	case right:
		s.replace(i, block{addr, n + s.byAddr[i].size})
	default:
		b := block{addr, n}
		s.byAddr = insert(s.byAddr, i, b)
		s.bySize = insert(s.bySize, s.sizeIndex(b), b)
	}
}

// lower brings the top down to addr, and below the last free block when that ends there.
func (s *placement) lower(addr int64, left bool) {
	s.top = addr
	if left {
		last := len(s.byAddr) - 1
		s.top = s.byAddr[last].addr
		s.bySize = remove(s.bySize, s.sizeIndex(s.byAddr[last]))
		s.byAddr = s.byAddr[:last]
	}
	k := len(s.grown)
	for k > 0 && s.grown[k-1].end() > s.top {
		k--
	}
	s.grown = s.grown[:k]
}

// replace puts b in the place of block i of byAddr.
func (s *placement) replace(i int, b block) {
	j := s.sizeIndex(s.byAddr[i])
	s.byAddr[i] = b
	s.resize(j, b)
}

// resize puts b in the place of block i of bySize and moves it to where it belongs.
func (s *placement) resize(i int, b block) {
	j := s.sizeIndex(b)
	if j <= i {
		copy(s.bySize[j+1:i+1], s.bySize[j:i])
		s.bySize[j] = b
		return
	}
	copy(s.bySize[i:], s.bySize[i+1:j])
	s.bySize[j-1] = b
}

// free returns the bytes below the top that are not in use, in how many blocks, and the largest of them.
func (s *placement) free() (bytes int64, blocks int, largest int64) {
	for _, b := range s.bySize {
		bytes, largest = bytes+b.size, b.size
	}
	return bytes, len(s.bySize), largest
}

// Blocks lie in sorted slices because they are few (tens to hundreds): a binary search and a short copy beat a tree, and
// nothing is left for Go's collector. The searches are written out, because a function value costs more than they do.

// addrIndex returns the index in byAddr of the first block at or above addr.
func (s *placement) addrIndex(addr int64) int {
	lo, hi := 0, len(s.byAddr)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if s.byAddr[m].addr < addr {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// sizeIndex returns the index in bySize of the first block that is not before b.
func (s *placement) sizeIndex(b block) int {
	lo, hi := 0, len(s.bySize)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		c := s.bySize[m]
		if c.size < b.size || c.size == b.size && c.addr < b.addr {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

func insert(s []block, i int, b block) []block {
	s = append(s, block{})
	copy(s[i+1:], s[i:])
	s[i] = b
	return s
}

func remove(s []block, i int) []block {
	copy(s[i:], s[i+1:])
	return s[:len(s)-1]
}
