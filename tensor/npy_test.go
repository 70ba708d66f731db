package tensor_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

const npyDir = "testdata/npy"

// The files that NumPy wrote: see make.py beside them.
func TestNpyFromNumPy(t *testing.T) {
	small := []float64{-2, -1, 0, 1, 2, 3}
	counted := []float64{0, 1, 2, 3, 4, 5}
	for _, c := range []struct {
		file  string
		spec  tensor.Spec
		want  []float64
		again bool // WriteNpy gives the same bytes
	}{
		{"le-f4", tensor.Of(tensor.Float32, 2, 3), small, true},
		{"le-f8", tensor.Of(tensor.Float64, 2, 3), small, true},
		{"le-f2", tensor.Of(tensor.Float16, 2, 3), small, true},
		{"le-i8", tensor.Of(tensor.Int64, 2, 3), small, true},
		{"le-i4", tensor.Of(tensor.Int32, 2, 3), small, true},
		{"u1", tensor.Of(tensor.Uint8, 2, 3), counted, true},
		{"b1", tensor.Of(tensor.Bool, 2, 3), []float64{0, 1, 0, 1, 0, 1}, true},
		{"bf16", tensor.Of(tensor.BFloat16, 2, 3), small, false},
		{"be-f4", tensor.Of(tensor.Float32, 2, 3), small, false},
		{"be-f2", tensor.Of(tensor.Float16, 2, 3), small, false},
		{"be-i8", tensor.Of(tensor.Int64, 2, 3), small, false},
		{"fortran", tensor.Of(tensor.Float32, 2, 3, 4), count[float64](24), false},
		{"scalar", tensor.Of(tensor.Float32), []float64{7}, true},
		{"vector", tensor.Of(tensor.Int32, 5), []float64{0, 1, 2, 3, 4}, true},
		{"empty", tensor.Of(tensor.Float32, 0, 3), []float64{}, true},
		{"version2", tensor.Of(tensor.Float32, 2, 3), counted, false},
		{"version3", tensor.Of(tensor.Float32, 2, 3), counted, false},
	} {
		t.Run(c.file, func(t *testing.T) {
			d := device(t, memory.Config{})
			path := filepath.Join(npyDir, c.file+".npy")
			x, err := tensor.LoadNpy(path, d, memory.Other, site)
			require.NoError(t, err)
			defer x.Release()
			require.True(t, x.Spec().Equal(c.spec), "%v", x.Spec())
			require.True(t, x.IsContiguous())
			require.Equal(t, c.spec.Bytes(), d.Stats().Live)
			require.Equal(t, c.want, values(x))
			if c.again {
				var b bytes.Buffer
				require.NoError(t, tensor.WriteNpy(&b, x))
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, raw, b.Bytes())
			}
		})
	}
}

// Every dtype, contiguous and as a view, comes back from a file bit for bit.
func TestNpyThereAndBack(t *testing.T) {
	d := device(t, memory.Config{})
	path := filepath.Join(t.TempDir(), "x.npy")
	for _, dt := range tensor.DTypes() {
		x := zeros(t, d, dt, 5, 7, 3)
		if dt != tensor.Bool {
			require.NoError(t, tensor.FillRange(x, 0, 1))
		} else {
			tensor.Data[bool](x)[4] = true
		}
		for _, view := range []*tensor.Tensor{
			x, must(t)(x.Permute(2, 0, 1)), must(t)(x.SliceStep(1, 1, 7, 2)), must(t)(x.Select(0, 3)), must(t)(x.Slice(2, 1, 1)),
		} {
			require.NoError(t, tensor.SaveNpy(path, view))
			live := d.Stats().Live
			y, err := tensor.LoadNpy(path, d, memory.Other, site)
			require.NoError(t, err)
			require.True(t, tensor.Equal(view, y), "%v of %v", view.Spec(), x.Spec())
			y.Release()
			require.Equal(t, live, d.Stats().Live)
		}
	}
}

// npy is a version 1 file with that header and data.
func npy(header, data string) string {
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(header)))) + header + data
}

func TestNpyRefuses(t *testing.T) {
	good := npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", "1234")
	for _, c := range []struct{ file, want string }{
		{"", "not a .npy file"},
		{"PK\x03\x04 a zip", "not a .npy file"},
		{good[:3], "not a .npy file"},
		{"\x93NUMPY\x04\x00" + good[8:], "version 4.0 of the .npy format: want 1 to 3"},
		{"\x93NUMPY\x02\x00\xff\xff\xff\xff" + strings.Repeat(" ", 100), "a header of 4294967295 bytes in a file of 112: unexpected EOF"},
		{"\x93NUMPY\x02\x00\x00\x00\x01\x00" + strings.Repeat(" ", 70000), "a header of 65536 bytes: want at most 65535"},
		{good[:20], "unexpected EOF"},
		{good[:len(good)-1], "float32[1] by its header: 3 bytes of elements: want 4"},
		{good + "x", "5 bytes of elements: want 4"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }", "1234"), "4 bytes of elements: want 4000000000000"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }", "1234"), "too many elements"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "1234"), "fit into an int"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "1234"), "want numbers"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", "1234"), "shape: want a string, True, False or a tuple"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", "1234"), "want , or )"},
		{npy("{'descr': '<f4', 'fortran_order': 'no', 'shape': (1,), }", "1234"), "fortran_order: want True or False"},
		{npy("{'descr': '<f4', 'shape': (1,), }", "1234"), "fortran_order: want True or False"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': True}", "1234"), "nothing else"},
		{npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "1234"), "given twice"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "1234"), "nothing after"},
		{npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "12345678"), `descr "<c8": want one of [f4 f8`},
		{npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"), "descr: want a string"},
		{npy("{'descr': True, 'fortran_order': False, 'shape': (1,)}", "1234"), "structured arrays"},
		{npy("{'descr': '<f4", "1234"), "does not end"},
		{npy("[]", ""), "want a dictionary"},
		{npy("{'descr' '<f4'}", ""), "want : after"},
		{npy("{'descr': '<f4' 'shape': ()}", ""), "want , or }"},
		{npy("{", ""), "want a string"},
		{npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\x01\x02"), "an element is 2: want 0 or 1"},
		{npy("{'descr': '|b1', 'fortran_order': True, 'shape': (2, 2)}", "\x01\x00\x00\x02"), "an element is 2: want 0 or 1"},
	} {
		d := device(t, memory.Config{})
		_, err := tensor.ReadNpy(strings.NewReader(c.file), int64(len(c.file)), d, memory.Other, site)
		require.ErrorContains(t, err, c.want, "%q", c.file)
		require.Zero(t, d.Stats().Live)
		path := filepath.Join(t.TempDir(), "wrong.npy")
		require.NoError(t, os.WriteFile(path, []byte(c.file), 0o600))
		_, err = tensor.LoadNpy(path, d, memory.Other, site)
		require.ErrorContains(t, err, "tensor: load npy "+path+": ")
	}
	for file, want := range map[string]string{"struct": "structured", "complex": "<c8", "i1": "|i1", "text": "<U2"} {
		_, err := tensor.LoadNpy(filepath.Join(npyDir, "refused-"+file+".npy"), device(t, memory.Config{}), memory.Other, site)
		require.Error(t, err)
		if file != "struct" {
			require.ErrorContains(t, err, want)
		}
	}
	d := device(t, memory.Config{})
	_, err := tensor.LoadNpy(filepath.Join(npyDir, "missing.npy"), d, memory.Other, site)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "missing.npy")
	small := device(t, memory.Config{Limit: 1 << 16})
	_, err = tensor.ReadNpy(strings.NewReader(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (65537,)}", strings.Repeat("x", 65537))), 65537+10+59, small, memory.Other, site)
	var oom *memory.OOMError
	require.ErrorAs(t, err, &oom)
}

// A disk that fails in the middle.
func TestNpyReadError(t *testing.T) {
	file := npy("{'descr': '<f4', 'fortran_order': True, 'shape': (30, 100)}", strings.Repeat("1234", 3000))
	for _, at := range []int64{0, 11, 200, int64(len(file)) - 1} {
		d := device(t, memory.Config{})
		_, err := tensor.ReadNpy(brokenAt{strings.NewReader(file), at}, int64(len(file)), d, memory.Other, site)
		require.ErrorIs(t, err, iotest.ErrTimeout)
		require.Zero(t, d.Stats().Live)
	}
}

// brokenAt cannot read byte at.
type brokenAt struct {
	io.ReaderAt
	at int64
}

func (r brokenAt) ReadAt(b []byte, at int64) (int, error) {
	if n := r.at - at; n >= 0 && n < int64(len(b)) {
		k, _ := r.ReaderAt.ReadAt(b[:n], at)
		return k, iotest.ErrTimeout
	}
	return r.ReaderAt.ReadAt(b, at)
}

func TestSaveNpyRefuses(t *testing.T) {
	dir := t.TempDir()
	virtual := device(t, memory.Config{Virtual: true})
	x := zeros(t, virtual, tensor.Float32, 2)
	require.ErrorContains(t, tensor.SaveNpy(filepath.Join(dir, "x.npy"), x), "write npy of float32[2]: it has no data")
	require.ErrorContains(t, tensor.SaveNpy(filepath.Join(dir, "no", "x.npy"), zeros(t, device(t, memory.Config{}), tensor.Float32, 2)), filepath.Join(dir, "no", "x.npy"))
	deep := make([]int, 40000)
	for i := range deep {
		deep[i] = 1
	}
	y := zeros(t, device(t, memory.Config{}), tensor.Float32, deep...)
	require.ErrorContains(t, tensor.SaveNpy(filepath.Join(dir, "x.npy"), y), "rank 40000")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// On a virtual device a file gives its spec, and its bytes are only counted.
func TestNpyOnAVirtualDevice(t *testing.T) {
	d := device(t, memory.Config{Virtual: true})
	x, err := tensor.LoadNpy(filepath.Join(npyDir, "fortran.npy"), d, memory.Param, site)
	require.NoError(t, err)
	require.Equal(t, "float32[2 3 4]", x.Spec().String())
	require.EqualValues(t, 96, d.Stats().Live)
	x.Release()
}

// A writer that takes less than it was given is not believed.
func TestWriteElemsShort(t *testing.T) {
	d := device(t, memory.Config{})
	x := zeros(t, d, tensor.Float32, 4, 4)
	for _, v := range []*tensor.Tensor{x, must(t)(x.Transpose(0, 1))} {
		require.ErrorIs(t, tensor.WriteElems(lazy{}, v), io.ErrShortWrite)
		require.ErrorIs(t, tensor.WriteNpy(lazy{}, v), io.ErrShortWrite)
	}
	wide := must(t)(must(t)(x.Slice(0, 0, 1)).Expand(3, 4))
	require.ErrorContains(t, tensor.ReadElems(strings.NewReader("much more than is needed for it, which does not help at all"), wide), "expand")
}

type lazy struct{}

func (lazy) Write(b []byte) (int, error) { return len(b) / 2, nil }

// FuzzNpy: whatever the bytes, no panic, nothing left on the device, and never more of it than the file has; what is read
// is written and read again as it was.
func FuzzNpy(f *testing.F) {
	files, err := filepath.Glob(npyDir + "/*.npy")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }", "1234")))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := memory.NewDevice(memory.Config{Limit: 1 << 24})
		require.NoError(t, err)
		defer func() { require.NoError(t, d.Close()) }()
		x, err := tensor.ReadNpy(bytes.NewReader(b), int64(len(b)), d, memory.Other, site)
		require.LessOrEqual(t, d.Stats().Peak, int64(len(b)))
		if err != nil {
			require.Zero(t, d.Stats().Live)
			return
		}
		defer x.Release()
		var again bytes.Buffer
		require.NoError(t, tensor.WriteNpy(&again, x))
		y, err := tensor.ReadNpy(bytes.NewReader(again.Bytes()), int64(again.Len()), d, memory.Other, site)
		require.NoError(t, err)
		defer y.Release()
		require.True(t, tensor.Equal(x, y))
	})
}
