package autograd

import (
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Forward and Backward by tiles.

// runOn gives the op's kernel the lane.
func (tl *tiler) runOn(r *Run, lane int) {
	mem := tl.run.Lane(lane)[tl.lane:]
	*r = Run{
		ss: tl.run.ss, site: tl.run.site, specs: tl.run.specs, serial: true, lanes: 1, lane: tl.own,
		mem: mem[:tl.own:tl.own], shared: mem[tl.own:],
	}
}

// tiled runs Forward by tiles.
func (w *work) tiled(op Op) error {
	shape, hidden := w.specs[0].Shape, len(w.sh.Out)-w.sh.Hidden
	if w.rule.Broadcast {
		shape = w.sh.Out[0].Shape
	}
	tl := w.ss.takeTiler(op, w.sight.dims, shape)
	defer tl.close()
	for i := range w.f.In {
		if tl.shared(w.seen[i]) {
			tl.sharedPort(w.f.In[i])
		} else {
			tl.port(w.f.In[i], false, false)
		}
	}
	for k := range w.f.Out {
		tl.port(w.f.Out[k], k >= hidden, false)
	}
	if err := tl.open(w.ss, w.site, w.seen, false); err != nil || w.ss.Dry() {
		return err
	}
	rand := w.f.Rand
	tl.each(func(l *tileLane, lane, _, tile, lo, n int) { tl.forward(l, lane, tile, lo, n, rand) })
	return nil
}

func (tl *tiler) forward(l *tileLane, lane, tile, lo, n int, rand tensor.Stream) {
	f, in := &l.f, len(tl.in)
	tl.runOn(&f.Run, lane)
	f.In, f.Out, f.Rand = f.In[:0], f.Out[:0], rand
	f.Rand.Offset += uint64(lo * tl.cols)
	for k := range tl.ports {
		if k < in {
			f.In = append(f.In, tl.load(l, lane, k, lo, n, tile == 0))
		} else {
			f.Out = append(f.Out, tl.view(l, lane, k, lo, n))
		}
	}
	tl.op.Forward(f)
	for k := range f.Out {
		tl.store(&f.Out[k], in+k, lo)
	}
}

// tiled runs Backward by tiles.
func (c *call) tiled(site memory.Site) error {
	n, b := c.b.node, &c.b
	tl := c.p.ss.takeTiler(n.op, n.sight.dims, n.tiledShape())
	defer tl.close()
	hidden := len(n.outs) - n.sight.hide
	for k := range b.grads {
		tl.port(b.grads[k], false, false)
	}
	for k := range b.out {
		tl.port(b.out[k], k >= hidden, false)
	}
	for i := range b.in {
		if tl.shared(c.in[i]) {
			tl.sharedPort(b.in[i])
		} else {
			tl.port(b.in[i], false, false)
		}
	}
	for i := range b.dst {
		if tl.shared(c.in[i]) {
			tl.sharedGrad(b.dst[i], b.add[i])
		} else {
			tl.port(b.dst[i], false, b.add[i])
		}
	}
	if err := tl.open(c.p.ss, site, c.in, true); err != nil || c.p.ss.Dry() {
		return err
	}
	tl.each(func(l *tileLane, lane, part, tile, lo, rows int) { tl.backward(l, b, lane, part, tile, lo, rows) })
	tl.finish(len(tl.ports) - len(b.dst))
	return nil
}

// tiledShape is that of input 0, or what it is broadcast to.
func (n *node) tiledShape() []int {
	if n.rule.Broadcast {
		return n.outs[0].Shape
	}
	return n.in[0].spec.Shape
}

func (tl *tiler) backward(l *tileLane, from *Bwd, lane, part, tile, lo, n int) {
	b, outs, ins := &l.b, len(from.grads), len(from.in)
	tl.runOn(&b.Run, lane)
	b.node, b.tile, b.Rand = from.node, l, from.Rand
	b.Rand.Offset += uint64(lo * tl.cols)
	b.grads, b.out, b.in, b.dst, b.add = b.grads[:0], b.out[:0], b.in[:0], b.dst[:0], b.add[:0]
	for k := range outs {
		b.grads = append(b.grads, tl.load(l, lane, k, lo, n, tile == 0))
		b.out = append(b.out, tl.load(l, lane, outs+k, lo, n, tile == 0))
	}
	first := 2*outs + ins
	for i := range ins {
		b.in = append(b.in, tl.load(l, lane, 2*outs+i, lo, n, tile == 0))
		p := &tl.ports[first+i]
		dst, add := tl.view(l, lane, first+i, lo, n), p.add && p.room < 0
		if p.whole && !p.t.Empty() {
			dst, add = tl.sumsOf(p, part), tile > 0
		}
		b.dst, b.add = append(b.dst, dst), append(b.add, add)
	}
	tl.op.Backward(b)
	for i := range ins {
		tl.store(&b.dst[i], first+i, lo)
	}
}

// sumsOf is the gradient of p over the rows of a part.
func (tl *tiler) sumsOf(p *port, part int) tensor.Tensor {
	buf, at := tl.run.sharedAt(p.sums + int64(part)*sumsStride(&p.t))
	return tensor.Part(buf, tensor.Spec{DType: tensor.Float32, Shape: p.t.Shape()}, int(at/4))
}

// finish adds up the parts of the gradients of what all rows share, those among the ports from number first on.
func (tl *tiler) finish(first int) {
	for k := first; k < len(tl.ports); k++ {
		p := &tl.ports[k]
		if !p.whole || p.t.Empty() {
			continue
		}
		n := p.t.Elems()
		stride := int(sumsStride(&p.t) / 4)
		all := kernel.View[float32](tl.run.shared[p.sums:])
		kernel.SumRows(all, tl.most, n, stride)
		tl.put(p, all[:n], 0)
	}
}
