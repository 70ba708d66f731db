package data

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// file returns x as the bytes of an IDX file.
func file(t testing.TB, x *IDX) []byte {
	var b bytes.Buffer
	n, err := x.WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	return b.Bytes()
}

func zipped(t testing.TB, raw []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(raw)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestIDXTypes(t *testing.T) {
	for _, c := range []struct {
		typ  Type
		data []byte
		want []float64
	}{
		{Uint8, []byte{0, 255}, []float64{0, 255}},
		{Int8, []byte{0x80, 127}, []float64{-128, 127}},
		{Int16, []byte{0x80, 0, 1, 2}, []float64{-32768, 258}},
		{Int32, []byte{0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0}, []float64{-1, 65536}},
		{Float32, []byte{0x3f, 0x80, 0, 0, 0xff, 0x80, 0, 0}, []float64{1, math.Inf(-1)}},
		{Float64, []byte{0xc0, 0, 0, 0, 0, 0, 0, 0, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0}, []float64{-2, .5}},
	} {
		t.Run(c.typ.String(), func(t *testing.T) {
			x := &IDX{Type: c.typ, Shape: []int{1, 2}, Data: c.data}
			raw := file(t, x)
			require.Equal(t, append([]byte{0, 0, byte(c.typ), 2, 0, 0, 0, 1, 0, 0, 0, 2}, c.data...), raw)
			for _, stream := range [][]byte{raw, zipped(t, raw)} {
				got, err := ReadIDX(bytes.NewReader(stream))
				require.NoError(t, err)
				require.Equal(t, x, got)
				require.Equal(t, 2, got.Len())
				for i, want := range c.want {
					require.Equal(t, want, got.At(i))
				}
			}
		})
	}
}

func TestIDXShapes(t *testing.T) {
	for _, shape := range [][]int{{}, {0}, {3, 0, 5}, {1, 1, 1, 1, 1}, {firstRead*3 + 1}, {2, firstRead}} {
		n, err := bytesOf(Uint8, shape)
		require.NoError(t, err)
		x := &IDX{Type: Uint8, Shape: shape, Data: bytes.Repeat([]byte{7}, n)}
		got, err := ReadIDX(bytes.NewReader(file(t, x)))
		require.NoError(t, err, "%v", shape)
		require.Equal(t, x, got)
	}
}

func TestIDXRefuses(t *testing.T) {
	good := file(t, &IDX{Type: Int16, Shape: []int{2, 3}, Data: make([]byte, 12)})
	badSum := zipped(t, good)
	badSum[len(badSum)-8] ^= 1
	for _, c := range []struct {
		name, want string
		stream     []byte
		early      bool
	}{
		{"empty", "magic number: 0 of 4 bytes", nil, true},
		{"half a magic", "magic number: 2 of 4 bytes", good[:2], true},
		{"no IDX", "magic number 50 4b 03 04: want 00 00, a type (08 09 0b 0c 0d 0e) and a rank", []byte("PK\x03\x04"), false},
		{"type 0a", "magic number 00 00 0a 01", []byte{0, 0, 0x0a, 1, 0, 0, 0, 0}, false},
		{"half the dimensions", "dimensions: 5 of 8 bytes for rank 2", good[:9], true},
		{"half the data", "int16[2 3], 12 bytes by its header: after 7 of them", good[:19], true},
		{"no data", "after 0 of them", good[:12], true},
		{"more data", "int16[2 3], 12 bytes by its header: want the end there, more bytes follow", append(good[:24:24], 0), false},
		{"overflow", "want at most", append([]byte{0, 0, 0x0e, 8}, bytes.Repeat([]byte{0xff}, 32)...), false},
		{"overflow behind a zero", "want at most", append([]byte{0, 0, 8, 9, 0, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 32)...), false},
		{"gzip header", "gzip header", []byte{0x1f, 0x8b, 1}, true},
		{"gzip cut", "inside gzip", zipped(t, good)[:20], true},
		{"gzip checksum", "inside gzip: after the last element: gzip: invalid checksum", badSum, false},
		{"gzip of text", "inside gzip: magic number", zipped(t, []byte("text")), false},
		{"gzip and more", "inside gzip: after the last element", append(zipped(t, good), "more bytes"...), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadIDX(bytes.NewReader(c.stream))
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.early, errors.Is(err, io.ErrUnexpectedEOF), "%v", err)

			path := filepath.Join(t.TempDir(), "x.idx")
			require.NoError(t, os.WriteFile(path, c.stream, 0o600))
			_, err = OpenIDX(path)
			require.ErrorContains(t, err, "data: "+path+": ")
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := OpenIDX("/no/such/file")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "/no/such/file")
}

// A header that promises terabytes costs what the stream holds.
func TestIDXHostileHeader(t *testing.T) {
	raw := append([]byte{0, 0, 0x0e, 2, 0x00, 0xff, 0xff, 0xff, 0x00, 0x0f, 0xff, 0xff}, make([]byte, 1<<20)...)
	before := allocated()
	_, err := ReadIDX(bytes.NewReader(raw))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, allocated()-before, uint64(5<<20))
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestIDXWriteRefuses(t *testing.T) {
	for want, x := range map[string]*IDX{
		"Type(0x0a) of rank 1":          {Type: 0x0a, Shape: []int{1}, Data: []byte{1}},
		"rank 256":                      {Type: Uint8, Shape: make([]int, 256)},
		"shape [-1]":                    {Type: Uint8, Shape: []int{-1}},
		"int16[3]: 5 bytes of data: wa": {Type: Int16, Shape: []int{3}, Data: make([]byte, 5)},
	} {
		_, err := x.WriteTo(io.Discard)
		require.ErrorContains(t, err, want)
	}
	r, w := io.Pipe()
	r.Close()
	_, err := (&IDX{Type: Uint8, Shape: []int{1}, Data: []byte{1}}).WriteTo(w)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// What is read without an error is written back to the same bytes, and no stream costs more than it holds.
func FuzzReadIDX(f *testing.F) {
	good := file(f, &IDX{Type: Int32, Shape: []int{2, 2}, Data: make([]byte, 16)})
	f.Add(good)
	f.Add(good[:15])
	f.Add(zipped(f, good))
	f.Add([]byte{0, 0, 8, 0, 1})
	f.Add(append([]byte{0, 0, 0x0e, 3}, bytes.Repeat([]byte{0x7f}, 20)...))
	f.Fuzz(func(t *testing.T, stream []byte) {
		x, err := ReadIDX(bytes.NewReader(stream))
		if err != nil {
			require.Nil(t, x)
			return
		}
		require.Len(t, x.Data, x.Len()*x.Type.Size())
		if x.Len() > 0 {
			x.At(x.Len() - 1)
		}
		if raw := file(t, x); stream[0] == 0 {
			require.Equal(t, stream, raw)
		}
	})
}
