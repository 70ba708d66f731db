package tensor

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// littleEndian tells whether this machine holds numbers as files do, so that bytes can be moved as they are.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// pieceBytes is what WriteElems and ReadElems hold at a time of a tensor whose bytes cannot be moved as they lie.
const pieceBytes = 8 << 10

// WriteElems writes the elements of t, of any strides, to w: in row-major order, little-endian, without a header, as
// .npy and safetensors files hold them. A contiguous tensor is handed to w in one call.
func WriteElems(w io.Writer, t *Tensor) error {
	if !t.readable() {
		return fmt.Errorf("tensor: write %v: it has no data, being empty or made on a virtual device or in a dry run", t.spec)
	}
	if t.IsContiguous() && littleEndian {
		return writeAll(w, t.raw())
	}
	out := make([]byte, 0, pieceBytes)
	size, all := t.spec.DType.Size(), t.buf.Bytes()
	var room [maxAxes]axis
	for run := over(room[:0], t, t); run.next(); {
		for k, i := 0, run.a; k < run.n; k, i = k+1, i+run.stepA {
			at := (t.offset + i) * size
			out = append(out, all[at:at+size]...)
			if !littleEndian {
				slices.Reverse(out[len(out)-size:])
			}
			if len(out)+size > cap(out) {
				if err := writeAll(w, out); err != nil {
					return err
				}
				out = out[:0]
			}
		}
	}
	return writeAll(w, out)
}

// writeAll does not believe a writer that took less and said nothing.
func writeAll(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// ReadElems fills t, of any strides, with elements as WriteElems writes them: t.Bytes() bytes of r, straight into the
// storage if t is contiguous. An end before that is [io.ErrUnexpectedEOF]. A Bool element that is neither 0 nor 1 is an
// error. After an error the elements are undefined. An expanded view is refused; where t has no bytes (a virtual device,
// a dry run) nothing is read.
func ReadElems(r io.Reader, t *Tensor) error { return readElems(r, t, binary.LittleEndian) }

func readElems(r io.Reader, t *Tensor, order binary.ByteOrder) error {
	if t.expanded() {
		return fmt.Errorf("tensor: read %v: %w", t.spec, errExpanded)
	}
	t.Bump()
	if !t.writable() {
		return nil
	}
	swap := (order == binary.LittleEndian) != littleEndian && t.spec.DType.Size() > 1
	if t.IsContiguous() && !swap {
		if _, err := io.ReadFull(r, t.raw()); err != nil {
			return early(err)
		}
		return checkBools(t.spec, t.raw())
	}
	return readPieces(r, t, swap)
}

// readPieces goes through a fixed piece of memory.
func readPieces(r io.Reader, t *Tensor, swap bool) error {
	size, all := t.spec.DType.Size(), t.buf.Bytes()
	left := int(t.Bytes())
	var piece, ready []byte
	var room [maxAxes]axis
	for run := over(room[:0], t, t); run.next(); {
		for k, i := 0, run.a; k < run.n; k, i = k+1, i+run.stepA {
			if len(ready) == 0 {
				if piece == nil {
					piece = make([]byte, min(left, pieceBytes))
				}
				ready = piece[:min(left, pieceBytes)]
				left -= len(ready)
				if _, err := io.ReadFull(r, ready); err != nil {
					return early(err)
				}
				if err := checkBools(t.spec, ready); err != nil {
					return err
				}
			}
			dst := all[(t.offset+i)*size:][:size]
			copy(dst, ready)
			if swap {
				slices.Reverse(dst)
			}
			ready = ready[size:]
		}
	}
	return nil
}

// raw is the bytes of a contiguous tensor that has some.
func (t *Tensor) raw() []byte {
	size := t.spec.DType.Size()
	return t.buf.Bytes()[t.offset*size:][:t.Elems()*size]
}

// early is err, which came before the last element: the end of a stream is not a good one there.
func early(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkBools keeps the invariant that Bool elements are 0 or 1.
func checkBools(s Spec, b []byte) error {
	if s.DType != Bool {
		return nil
	}
	for _, v := range b {
		if v > 1 {
			return fmt.Errorf("tensor: read %v: an element is %d: want 0 or 1", s, v)
		}
	}
	return nil
}
