package autograd

import (
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Ops that work element by element or row by row (Rule.Each, Rower) see half types a tile at a time: a tile's halves are
// widened into the lane's scratch, the op's own Forward or Backward runs on it as if it were all there is, and what it made
// is rounded to where it belongs. So none of them has kernels for halves, and none makes a float32 copy of a tensor.
//
// What the rows share (the weight of a norm) is widened once a part, which is some neighbouring tiles, and its gradient is
// summed in float32: over the tiles of a part in their order, then over the parts. How all is cut follows from shapes.

// tileElems is about how many elements of each operand a tile has: 32 KiB of float32.
const tileElems = 1 << 13

// tileParts is how many parts a sum over rows has at most.
const tileParts = 8

// rowDims is how many of the last dimensions of input 0 make a row, and whether op works by rows at all.
func rowDims(op Op, in []tensor.Spec) (dims int, ok bool) {
	if op.Rule().Each {
		return 0, true
	}
	if r, ok := op.(Rower); ok {
		return r.Row(in)
	}
	return 0, false
}

// tiling is how an op's rows are cut.
type tiling struct {
	dims             int
	shape            []int // of input 0, or what it is broadcast to
	rows, cols       int
	per, tiles, most int // rows of a tile; tiles; parts
}

func newTiling(dims int, shape []int) tiling {
	t := tiling{dims: dims, shape: shape, rows: 1, cols: 1}
	for i, n := range shape {
		if i < len(shape)-dims {
			t.rows *= n
		} else {
			t.cols *= n
		}
	}
	t.per = max(1, min(t.rows, tileElems/max(1, t.cols)))
	t.tiles = max(1, (t.rows+t.per-1)/t.per)
	t.most = t.tiles
	return t
}

// like fills to with the shape of n rows.
func (t *tiling) like(to []int, n int) []int {
	if t.dims == 0 {
		return append(to[:0], n)
	}
	lead := len(t.shape) - t.dims
	for range lead {
		to = append(to, 1)
	}
	to = append(to, t.shape[lead:]...)
	if lead > 0 {
		to[lead-1] = n
	}
	return to
}

// port is one tensor of an op: how its tiles are shown to the kernel.
type port struct {
	t     tensor.Tensor // empty: there is none
	whole bool          // all rows share it
	bits  bool          // a mask, a bit an element
	per   int           // elements that belong to a row
	room  int64         // where its tile is in the lane's scratch; below 0: it is shown where it lies
	sums  int64         // where the sums of the parts are in shared scratch, of a gradient that all rows share
	add   bool
}

// tiler computes one call. The session keeps one.
type tiler struct {
	tiling
	op    Op
	in    []tensor.Spec // of a full tile
	whole []bool        // inputs that all rows share
	sh    Shapes
	ports []port
	lane  int64 // bytes of a lane that ports take, and then what the op wants
	own   int64
	sums  int64 // bytes of shared scratch
	run   Run
	lanes []tileLane
}

// tileLane is what the op sees of a tile.
type tileLane struct {
	f       Fwd
	b       Bwd
	in, out []tensor.Spec
	like    []int
	ones    [][1]int // shapes of what is not like input 0, a port each
}

func (ss *Session) takeTiler(op Op, dims int, shape []int) *tiler {
	tl := &ss.tiler
	tl.tiling, tl.op = newTiling(dims, shape), op
	tl.ports, tl.in, tl.whole, tl.lane, tl.sums = tl.ports[:0], tl.in[:0], tl.whole[:0], 0, 0
	return tl
}

// close lets go of all tensors.
func (tl *tiler) close() {
	tl.run.close()
	clear(tl.ports)
	clear(tl.in)
	for i := range tl.lanes {
		l := &tl.lanes[i]
		clear(l.f.In)
		clear(l.f.Out)
		for _, ts := range [][]tensor.Tensor{l.b.grads, l.b.in, l.b.out, l.b.dst} {
			clear(ts)
		}
		l.f.Run, l.b.Run, l.b.node = Run{}, Run{}, nil
	}
	tl.op, tl.shape = nil, nil
}

// shared tells of an input that all rows share.
func (tl *tiler) shared(spec tensor.Spec) bool {
	return !tl.op.Rule().Broadcast && !spec.SameShape(tensor.Spec{Shape: tl.shape})
}

// port adds t, a hidden output or what is like input 0.
func (tl *tiler) port(t tensor.Tensor, hidden, add bool) {
	p := port{t: t, add: add, per: tl.cols, room: -1}
	switch {
	case t.Empty():
	case hidden:
		if p.bits = t.DType() == tensor.Uint8; !p.bits && tl.rows > 0 {
			p.per = t.Elems() / tl.rows
		}
	case isHalf(t.DType()) || !t.IsContiguous():
		p.room = tl.take(tl.per*tl.cols, t.DType())
	}
	tl.ports = append(tl.ports, p)
}

// sharedPort adds an input that all rows share.
func (tl *tiler) sharedPort(t tensor.Tensor) {
	p := port{t: t, whole: true, room: -1}
	if !t.Empty() && (isHalf(t.DType()) || !t.IsContiguous()) {
		p.room = tl.take(t.Elems(), t.DType())
	}
	tl.ports = append(tl.ports, p)
}

// sharedGrad adds the gradient of one.
func (tl *tiler) sharedGrad(t tensor.Tensor, add bool) {
	p := port{t: t, whole: true, add: add, room: -1, sums: -1}
	if !t.Empty() {
		tl.most = min(tl.tiles, tileParts)
		p.sums = tl.sums
		tl.sums += int64(tl.most) * sumsStride(&t)
	}
	tl.ports = append(tl.ports, p)
}

// take is room for n elements of dt, or as float32 for halves, in the lane's scratch.
func (tl *tiler) take(n int, dt tensor.DType) int64 {
	at, size := tl.lane, dt.Size()
	if isHalf(dt) {
		size = 4
	}
	tl.lane += roundUp64(int64(max(1, n)) * int64(size)) // of nothing, too: there must be a buffer
	return at
}

// sumsStride is the bytes from one part's sums to the next one's.
func sumsStride(t *tensor.Tensor) int64 { return roundUp64(4 * int64(max(1, t.Elems()))) }

func roundUp64(n int64) int64 { return (n + 63) &^ 63 }

// open asks the op what it wants for a tile, and allocates scratch.
func (tl *tiler) open(ss *Session, site memory.Site, in []tensor.Spec, backward bool) error {
	like := tl.like(nil, tl.per)
	for _, s := range in {
		whole := tl.shared(s)
		if !whole {
			s.Shape = like
		}
		tl.in, tl.whole = append(tl.in, s), append(tl.whole, whole)
	}
	tl.sh.reset()
	if err := tl.op.Infer(tl.in, &tl.sh); err != nil {
		return err
	}
	scratch, shared := tl.sh.Scratch, tl.sh.Shared
	if backward {
		scratch, shared = tl.sh.BwdScratch, tl.sh.BwdShared
	}
	tl.own = roundUp64(scratch)
	return tl.run.open(ss, site, Work{Scratch: tl.lane + tl.own + shared, Shared: tl.sums, Chunks: tl.most})
}

// specsOf notes the specs of a tile of n rows. Those of hidden outputs are a full tile's.
func (tl *tiler) specsOf(l *tileLane, n int) {
	l.like = tl.like(l.like[:0], n)
	l.in, l.out = append(l.in[:0], tl.in...), append(l.out[:0], tl.sh.Out...)
	for i := range l.in {
		if !tl.whole[i] {
			l.in[i].Shape = l.like
		}
	}
	for k := range len(l.out) - tl.sh.Hidden {
		l.out[k].Shape = l.like
	}
}

// view shows port k to the kernel: rows from number lo on, n of them. What all rows share must have been loaded.
func (tl *tiler) view(l *tileLane, lane, k, lo, n int) tensor.Tensor {
	p := &tl.ports[k]
	if p.t.Empty() {
		return tensor.Tensor{}
	}
	spec := tensor.Spec{DType: p.t.DType(), Shape: l.like}
	switch {
	case p.whole && p.room < 0:
		return p.t
	case p.whole:
		spec.Shape = p.t.Shape()
	case p.bits:
		l.ones[k][0] = kernel.MaskBytes(n * tl.cols)
		spec.Shape = l.ones[k][:]
		return tensor.Part(p.t.Buffer(), spec, p.t.Offset()+lo*tl.cols/8)
	case p.per != tl.cols:
		l.ones[k][0] = n * p.per
		spec.Shape = l.ones[k][:]
		return tensor.Part(p.t.Buffer(), spec, p.t.Offset()+lo*p.per)
	case p.room < 0:
		return tensor.Part(p.t.Buffer(), spec, p.t.Offset()+lo*tl.cols)
	}
	if isHalf(spec.DType) {
		spec.DType = tensor.Float32
	}
	buf, at := tl.run.laneAt(lane, p.room)
	return tensor.Part(buf, spec, int(at)/spec.DType.Size())
}

// load is view, filled; first says that the tile is a part's first.
func (tl *tiler) load(l *tileLane, lane, k, lo, n int, first bool) tensor.Tensor {
	v, p := tl.view(l, lane, k, lo, n), &tl.ports[k]
	if p.t.Empty() || p.room < 0 || p.whole && !first {
		return v
	}
	at := lo * tl.cols
	if p.whole {
		at = 0
	}
	switch v.DType().Size() {
	case 1:
		kernel.Take(operand.Words[uint8](&v).Data[:v.Elems()], operand.Words[uint8](&p.t), at)
	case 8:
		kernel.Take(operand.Words[uint64](&v).Data[:v.Elems()], operand.Words[uint64](&p.t), at)
	default:
		if isHalf(p.t.DType()) {
			h, src := operand.Half(&p.t)
			kernel.TakeHalf(h, tensor.Data[float32](&v), src, at)
			return v
		}
		kernel.Take(operand.Words[uint32](&v).Data[:v.Elems()], operand.Words[uint32](&p.t), at)
	}
	return v
}

// store puts a tile that the kernel has filled where it belongs, unless it lies there.
func (tl *tiler) store(v *tensor.Tensor, k, lo int) {
	p := &tl.ports[k]
	if p.t.Empty() || p.room < 0 {
		return
	}
	tl.put(p, tensor.Data[float32](v), lo*tl.cols)
}

// put puts x into elements from number at on.
func (tl *tiler) put(p *port, x []float32, at int) {
	if isHalf(p.t.DType()) {
		h, dst := operand.Half(&p.t)
		kernel.PutHalf(h, dst, p.add, x, at)
		return
	}
	kernel.Put(operand.Of[float32](&p.t), p.add, x, at)
}

// each runs f for every tile, a part at a time: lo and n are its rows, tile its number in the part.
func (tl *tiler) each(f func(l *tileLane, lane, part, tile, lo, n int)) {
	for len(tl.lanes) < tl.run.lanes {
		tl.lanes = append(tl.lanes, tileLane{})
	}
	for i := range tl.lanes {
		l := &tl.lanes[i]
		for len(l.ones) < len(tl.ports) {
			l.ones = append(l.ones, [1]int{})
		}
	}
	tl.run.Par(tl.most, func(lane, part int) {
		l := &tl.lanes[lane]
		first, end := part*tl.tiles/tl.most, (part+1)*tl.tiles/tl.most
		for t := first; t < end; t++ {
			lo := t * tl.per
			n := max(0, min(tl.per, tl.rows-lo))
			tl.specsOf(l, n)
			f(l, lane, part, t-first, lo, n)
		}
	})
}
