package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tiny is a data set of 3 training and 2 test images of 2x2 pixels.
func tiny() map[string]*IDX {
	return map[string]*IDX{
		setFiles[0]: {Type: Uint8, Shape: []int{3, 2, 2}, Data: []byte{0, 255, 0, 255, 1, 2, 3, 4, 51, 102, 153, 204}},
		setFiles[1]: {Type: Uint8, Shape: []int{3}, Data: []byte{4, 0, 2}},
		setFiles[2]: {Type: Uint8, Shape: []int{2, 2, 2}, Data: []byte{9, 9, 9, 9, 8, 8, 8, 8}},
		setFiles[3]: {Type: Uint8, Shape: []int{2}, Data: []byte{1, 3}},
	}
}

// folder writes a data set with the names that spell makes, compressed where they end in .gz.
func folder(t *testing.T, set map[string]*IDX, spell func(string) string) string {
	dir := t.TempDir()
	for name, x := range set {
		name, raw := spell(name), file(t, x)
		if strings.HasSuffix(name, ".gz") {
			raw = zipped(t, raw)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	return dir
}

func plain(name string) string { return name }

func dotted(name string) string { return strings.Replace(name, "-idx", ".idx", 1) }

func TestLoadImages(t *testing.T) {
	for how, spell := range map[string]func(string) string{
		"plain":     plain,
		"dot":       dotted,
		"gz":        func(s string) string { return s + ".gz" },
		"dot gz":    func(s string) string { return dotted(s) + ".gz" },
		"some each": func(s string) string { return s + map[bool]string{true: ".gz"}[strings.HasPrefix(s, "t10k")] },
	} {
		t.Run(how, func(t *testing.T) {
			train, test, err := LoadImages(folder(t, tiny(), spell))
			require.NoError(t, err)
			require.Equal(t, &Images{X: tiny()[setFiles[0]].Data, Y: []byte{4, 0, 2}, N: 3, H: 2, W: 2, Classes: 5}, train)
			require.Equal(t, &Images{X: tiny()[setFiles[2]].Data, Y: []byte{1, 3}, N: 2, H: 2, W: 2, Classes: 5}, test)
		})
	}
}

// The name does not say whether a file is compressed: its content does.
func TestLoadImagesByContent(t *testing.T) {
	dir := folder(t, tiny(), plain)
	path := filepath.Join(dir, setFiles[0])
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, zipped(t, raw), 0o600))
	require.NoError(t, os.Rename(filepath.Join(dir, setFiles[1]), filepath.Join(dir, setFiles[1]+".gz")))
	_, _, err = LoadImages(dir)
	require.NoError(t, err)
}

func TestLoadImagesMissing(t *testing.T) {
	wanted := func(t *testing.T, dir, want string) {
		_, _, err := LoadImages(dir)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "want a folder with the four IDX files")
		for _, name := range setFiles {
			require.ErrorContains(t, err, name)
		}
	}
	gone := filepath.Join(t.TempDir(), "gone")
	wanted(t, gone, `data: folder "`+gone+`": file does not exist`)
	wanted(t, "", `data: folder "": file does not exist`)
	empty := t.TempDir()
	wanted(t, empty, `data: folder "`+empty+`": no train-images-idx3-ubyte, no train-labels-idx1-ubyte, no t10k-images`)
	wanted(t, empty, "; it is empty: ")

	dir := folder(t, tiny(), plain)
	require.NoError(t, os.Remove(filepath.Join(dir, setFiles[1])))
	wanted(t, dir, "no train-labels-idx1-ubyte; it holds t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, train-images-idx3-ubyte: ")
	for _, more := range strings.Fields("a b c d e") {
		require.NoError(t, os.WriteFile(filepath.Join(dir, more), nil, 0o600))
	}
	wanted(t, dir, "it holds a, b, c, d, e, t10k-images-idx3-ubyte and 2 more: ")
	wanted(t, filepath.Join(dir, "a"), "not a directory")
}

func TestLoadImagesRefuses(t *testing.T) {
	for _, c := range []struct {
		file int
		x    IDX
		want string
	}{
		{0, IDX{Type: Uint8, Shape: []int{3}, Data: []byte{1, 2, 3}}, "train-images-idx3-ubyte: uint8[3]: want uint8 of rank 3"},
		{0, IDX{Type: Int8, Shape: []int{1, 1, 1}, Data: []byte{1}}, "int8[1 1 1]: want uint8 of rank 3"},
		{0, IDX{Type: Uint8, Shape: []int{0, 2, 2}}, "uint8[0 2 2]: want uint8 of rank 3, not empty"},
		{1, IDX{Type: Uint8, Shape: []int{2}, Data: []byte{1, 2}}, "train-labels-idx1-ubyte: 2 labels: want one for each of the 3 images in "},
		{2, IDX{Type: Uint8, Shape: []int{2, 1, 4}, Data: make([]byte, 8)}, "t10k-images-idx3-ubyte: images of 1x4: want 2x2 as in "},
		{3, IDX{Type: Uint8, Shape: []int{2}, Data: []byte{1, 5}}, "t10k-labels-idx1-ubyte: label 5: want 0 to 4 as in "},
	} {
		set := tiny()
		set[setFiles[c.file]] = &c.x
		_, _, err := LoadImages(folder(t, set, plain))
		require.ErrorContains(t, err, c.want)
	}
	dir := folder(t, tiny(), plain)
	require.NoError(t, os.WriteFile(filepath.Join(dir, setFiles[2]), []byte("<html>"), 0o600))
	_, _, err := LoadImages(dir)
	require.ErrorContains(t, err, setFiles[2]+": magic number")
}
