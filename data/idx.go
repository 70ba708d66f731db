package data

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
)

// Type is the element type of an IDX file: the third byte of its magic number.
type Type uint8

// The element types of the format (LeCun, Cortes and Burges, "The MNIST database of handwritten digits", 1998).
const (
	Uint8   Type = 0x08
	Int8    Type = 0x09
	Int16   Type = 0x0B
	Int32   Type = 0x0C
	Float32 Type = 0x0D
	Float64 Type = 0x0E
)

// types holds each type's name and the bytes of an element.
var types = map[Type]struct {
	name string
	size int
}{
	Uint8: {"uint8", 1}, Int8: {"int8", 1}, Int16: {"int16", 2}, Int32: {"int32", 4}, Float32: {"float32", 4}, Float64: {"float64", 8},
}

// Size returns the bytes of one element, 0 for a type that the format does not have.
func (t Type) Size() int { return types[t].size }

// String returns the type's name in Go, "uint8".
func (t Type) String() string {
	if d, ok := types[t]; ok {
		return d.name
	}
	return fmt.Sprintf("Type(0x%02x)", uint8(t))
}

// IDX is an n-dimensional array as it stands in an IDX file.
type IDX struct {
	Type  Type
	Shape []int  // outermost dimension first; empty for a single element
	Data  []byte // the elements in row-major order, big-endian, as in the file
}

// Len returns the number of elements.
func (x *IDX) Len() int {
	n := 1
	for _, d := range x.Shape {
		n *= d
	}
	return n
}

// At returns element i in row-major order. Every value of every type is exact in a float64.
// It panics as a slice does when i is out of range.
func (x *IDX) At(i int) float64 {
	size := x.Type.Size()
	b := x.Data[i*size : (i+1)*size]
	switch x.Type {
	case Uint8:
		return float64(b[0])
	case Int8:
		return float64(int8(b[0]))
	case Int16:
		return float64(int16(binary.BigEndian.Uint16(b)))
	case Int32:
		return float64(int32(binary.BigEndian.Uint32(b)))
	case Float32:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b)))
	case Float64:
		return math.Float64frombits(binary.BigEndian.Uint64(b))
	}
	return math.NaN()
}

// OpenIDX reads the IDX file at path, plain or compressed; see [ReadIDX].
func OpenIDX(path string) (*IDX, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err) // the os error names operation and path
	}
	defer f.Close()
	x, err := readStream(f)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return x, nil
}

// ReadIDX reads one IDX array that fills r to its end, plain or compressed by gzip (told apart by the content).
//
// The header is not believed: memory grows with what r really yields, to at most twice of it on the way. A wrong magic
// number, dimensions that overflow, a stream that ends early (the error wraps [io.ErrUnexpectedEOF]) or goes on, and a
// wrong gzip checksum are errors.
func ReadIDX(r io.Reader) (*IDX, error) {
	x, err := readStream(r)
	if err != nil {
		return nil, fmt.Errorf("data: IDX stream: %w", err)
	}
	return x, nil
}

// readStream unpacks r if it is compressed. The first two bytes of an IDX file are 0, those of gzip 1f 8b.
func readStream(r io.Reader) (*IDX, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
		return readIDX(b)
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("gzip header: %w", early(err))
	}
	x, err := readIDX(bufio.NewReader(z))
	if err != nil {
		return nil, fmt.Errorf("inside gzip: %w", err)
	}
	return x, nil
}
