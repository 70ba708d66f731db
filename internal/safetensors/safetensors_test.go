package safetensors

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/tensor"
)

// file is a file with that header and so many bytes of elements.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func read(b []byte) (*File, error) { return Read(bytes.NewReader(b), int64(len(b))) }

func TestHeadIsRead(t *testing.T) {
	entries := []Entry{
		New("b", tensor.Of(tensor.Uint8, 3)), New("a", tensor.Of(tensor.Float32, 2, 2)), New("c<&>\"é\n", tensor.Of(tensor.Float64)),
		New("z", tensor.Of(tensor.Float32, 0, 5)), New("h", tensor.Of(tensor.BFloat16, 1)),
	}
	Sort(entries)
	Place(entries)
	head, err := Head(entries, map[string]string{"format": "pt", "": "x"})
	require.NoError(t, err)
	want := `{"__metadata__":{"":"x","format":"pt"},"c<&>\"é\n":{"dtype":"F64","shape":[],"data_offsets":[0,8]},` +
		`"a":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},"z":{"dtype":"F32","shape":[0,5],"data_offsets":[24,24]},` +
		`"h":{"dtype":"BF16","shape":[1],"data_offsets":[24,26]},"b":{"dtype":"U8","shape":[3],"data_offsets":[26,29]}}`
	require.Equal(t, want, strings.TrimRight(string(head[8:]), " "))
	require.Zero(t, len(head)%8)

	f, err := read(append(head, make([]byte, 29)...))
	require.NoError(t, err)
	require.Equal(t, head, f.Head)
	require.Equal(t, map[string]string{"format": "pt", "": "x"}, f.Meta)
	require.Len(t, f.Entries, 5)
	for i, e := range f.Entries {
		require.Equal(t, entries[i].String(), e.String())
		found, ok := f.Find(e.Name)
		require.True(t, ok)
		require.Equal(t, e, *found)
		require.Equal(t, e.Hi-e.Lo, f.Data(&e).Size())
		s, err := e.Spec()
		require.NoError(t, err)
		require.Equal(t, e.Hi-e.Lo, s.Bytes())
	}
	_, ok := f.Find("nothing")
	require.False(t, ok)

	_, err = Head([]Entry{New("a", tensor.Of(tensor.Bool)), New("a", tensor.Of(tensor.Bool))}, nil)
	require.ErrorContains(t, err, `"a" is taken`)
	_, err = Head([]Entry{New(metaKey, tensor.Of(tensor.Bool))}, nil)
	require.ErrorContains(t, err, "is taken")
}

func TestReadRefuses(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, "0 bytes: want a header's length in 8"},
		{[]byte("1234567"), "7 bytes"},
		{file("{}", 0)[:9], "a header of 2 bytes in a file of 9: unexpected EOF"},
		{binary.LittleEndian.AppendUint64(nil, 1<<63+5), "want at most 100000000: not a safetensors file"},
		{file(`{`+a+`}`, 3), `"a": bytes 0 to 4 in a file with 3 bytes of elements: unexpected EOF`},
		{file(`{`+a+`}`, 5), "the header speaks of 4 bytes of elements, the file has 5"},
		{file(`{`+a+`}`, 0), "unexpected EOF"},
		{file(`{`+a+`,`+a+`}`, 4), `"a" is given twice`},
		{file(`{`+a+`}x`, 4), "nothing but spaces"},
		{file(` {`+a+`}`, 4), "begins at once"},
		{file(``, 4), "begins at once"},
		{file(`[]`, 4), "begins at once"},
		{file(`{`+a, 4), "EOF"},
		{file(`{"a":1}`, 4), `"a": json`},
		{file(`{"a":{"dtype":"F32","shape":[1]}}`, 4), "want dtype, shape and two data_offsets"},
		{file(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), "want dtype, shape and two data_offsets"},
		{file(`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4), "want dtype, shape and two data_offsets"},
		{file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, 4), "two data_offsets"},
		{file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), "a dimension is negative"},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), `F32[2] in 4 bytes: want 8`},
		{file(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}}`, 4), "too many elements"},
		{file(`{"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}}`, 4), "json"},
		{file(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 4), "json"},
		{file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), "want them to begin at 0"},
		{file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,-4]}}`, 4), "want them to begin at 0"},
		{file(`{`+a+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`, 6), `"b": bytes 2 to 6: want them to begin at 4`},
		{file(`{`+a+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}}`, 9), "want them to begin at 4"},
		{file(`{"__metadata__":{"a":1},`+a+`}`, 4), "__metadata__: json"},
		{file(`{"__metadata__":{},"__metadata__":{},`+a+`}`, 4), "__metadata__ is given twice"},
	} {
		_, err := read(c.file)
		require.ErrorContains(t, err, c.want, "%q", c.file)
	}
}

func TestOtherDTypes(t *testing.T) {
	f, err := read(file(`{"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"F4_NEW","shape":[3],"data_offsets":[4,6]}}   `, 6))
	require.NoError(t, err, "a file with tensors that nobody asks for is not a bad file")
	for _, e := range f.Entries {
		_, err = e.Spec()
		require.ErrorContains(t, err, e.Name+": dtype "+e.DType+": want one of [F32 F64")
	}
}

// FuzzRead: whatever the bytes, no panic; memory in proportion to the file; and of what is read, a header that is written
// says the same again.
func FuzzRead(f *testing.F) {
	f.Add(file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]}}  `, 9))
	f.Add(file(`{"a":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4000000000000]}}`, 4))
	f.Add(binary.LittleEndian.AppendUint64(nil, 99_999_999))
	f.Add(file(`{"a":{"dtype":"I8","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`, 0))
	f.Add(file(strings.Repeat("[", 20000), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x, err := read(b)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20+400*len(b)))
		if err != nil {
			return
		}
		at := int64(0)
		for i := range x.Entries {
			e := &x.Entries[i]
			require.Equal(t, at, e.Lo)
			at = e.Hi
			if s, err := e.Spec(); err == nil && s.Validate() == nil {
				require.Equal(t, s.Bytes(), e.Hi-e.Lo)
				n, err := io.Copy(io.Discard, x.Data(e))
				require.NoError(t, err)
				require.Equal(t, s.Bytes(), n)
			}
		}
		require.Equal(t, int64(len(b)), int64(len(x.Head))+at)
		head, err := Head(x.Entries, x.Meta)
		require.NoError(t, err)
		again, err := read(append(head, make([]byte, at)...))
		require.NoError(t, err)
		require.Equal(t, x.Entries, again.Entries)
		require.Equal(t, len(x.Meta), len(again.Meta))
	})
}
