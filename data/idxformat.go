package data

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// firstRead bounds what is taken on the word of the header alone, in bytes.
const firstRead = 64 << 10

func readIDX(r *bufio.Reader) (*IDX, error) {
	x, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	want, err := bytesOf(x.Type, x.Shape)
	if err != nil {
		return nil, err
	}
	if x.Data, err = readGrowing(r, want); err != nil {
		return nil, fmt.Errorf("%s%v, %d bytes by its header: after %d of them: %w", x.Type, x.Shape, want, len(x.Data), early(err))
	}
	switch _, err := r.ReadByte(); {
	case err == nil:
		return nil, fmt.Errorf("%s%v, %d bytes by its header: want the end there, more bytes follow", x.Type, x.Shape, want)
	case err != io.EOF:
		return nil, fmt.Errorf("after the last element: %w", err)
	}
	return x, nil
}

// readHeader reads 0, 0, type, rank and the dimensions, 4 bytes each.
func readHeader(r io.Reader) (*IDX, error) {
	var magic [4]byte
	if n, err := io.ReadFull(r, magic[:]); err != nil {
		return nil, fmt.Errorf("magic number: %d of 4 bytes: %w", n, early(err))
	}
	x := &IDX{Type: Type(magic[2])}
	if magic[0] != 0 || magic[1] != 0 || x.Type.Size() == 0 {
		return nil, fmt.Errorf("magic number % x: want 00 00, a type (08 09 0b 0c 0d 0e) and a rank: not an IDX file", magic)
	}
	dims := make([]byte, 4*int(magic[3]))
	if n, err := io.ReadFull(r, dims); err != nil {
		return nil, fmt.Errorf("dimensions: %d of %d bytes for rank %d: %w", n, len(dims), magic[3], early(err))
	}
	x.Shape = make([]int, magic[3])
	for i := range x.Shape {
		d := binary.BigEndian.Uint32(dims[4*i:])
		if uint64(d) > math.MaxInt {
			return nil, fmt.Errorf("dimension %d is %d: want at most %d on this machine", i, d, math.MaxInt)
		}
		x.Shape[i] = int(d)
	}
	return x, nil
}

// bytesOf returns the bytes of an array. A zero among the dimensions does not hide an overflow of the others, so that
// every partial product is safe as well.
func bytesOf(t Type, shape []int) (int, error) {
	size, empty := t.Size(), false
	for _, d := range shape {
		if d == 0 {
			empty = true
			continue
		}
		if size > math.MaxInt/d {
			return 0, fmt.Errorf("%s%v: want at most %d bytes", t, shape, math.MaxInt)
		}
		size *= d
	}
	if empty {
		return 0, nil
	}
	return size, nil
}

// readGrowing reads n bytes into memory that doubles as they come. On an error it returns what came.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	buf := make([]byte, min(n, firstRead))
	have := 0
	for {
		k, err := io.ReadFull(r, buf[have:])
		have += k
		if err != nil || have == n {
			return buf[:have], err
		}
		grown := make([]byte, have+min(have, n-have))
		copy(grown, buf)
		buf = grown
	}
}

// early makes the end of a stream where more was wanted the error that says so.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// WriteTo writes x as a plain IDX file. It is an error if the type is none of the format's, if a dimension does not fit
// in 32 bits, the rank in 8, or Data in Shape.
func (x *IDX) WriteTo(w io.Writer) (int64, error) {
	header, err := x.header()
	if err != nil {
		return 0, err
	}
	n, err := w.Write(header)
	if err == nil {
		var k int
		k, err = w.Write(x.Data)
		n += k
	}
	if err != nil {
		return int64(n), fmt.Errorf("data: write IDX: %w", err)
	}
	return int64(n), nil
}

func (x *IDX) header() ([]byte, error) {
	if x.Type.Size() == 0 || len(x.Shape) > math.MaxUint8 {
		return nil, fmt.Errorf("data: write IDX: %s of rank %d: want one of the format's types and a rank up to 255", x.Type, len(x.Shape))
	}
	h := []byte{0, 0, byte(x.Type), byte(len(x.Shape))}
	for _, d := range x.Shape {
		if d < 0 || uint64(d) > math.MaxUint32 {
			return nil, fmt.Errorf("data: write IDX: shape %v: want dimensions from 0 to %d", x.Shape, uint32(math.MaxUint32))
		}
		h = binary.BigEndian.AppendUint32(h, uint32(d))
	}
	want, err := bytesOf(x.Type, x.Shape)
	if err == nil && len(x.Data) != want {
		err = fmt.Errorf("%s%v: %d bytes of data: want %d", x.Type, x.Shape, len(x.Data), want)
	}
	if err != nil {
		return nil, fmt.Errorf("data: write IDX: %w", err)
	}
	return h, nil
}
