package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Images is a set of labelled grey images of one size. It is not changed once it was read, and may be shared.
type Images struct {
	X       []byte // the pixels, 0 to 255: N images of H rows of W
	Y       []byte // N labels, 0 to Classes-1
	N, H, W int
	Classes int // one more than the highest label of the training set
}

// The files of a data set, in the order in which they are read.
var setFiles = [4]string{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}

// LoadImages reads the four IDX files of a data set such as MNIST or Fashion-MNIST from the folder dir:
//
//	train-images-idx3-ubyte   train-labels-idx1-ubyte   t10k-images-idx3-ubyte   t10k-labels-idx1-ubyte
//
// each with or without .gz, and with "." or "-" before idx. Where a file is there more than once the plain one is taken,
// and "-" before ".". Images must be uint8 of rank 3, labels uint8 of rank 1, as many as images, test images of the
// size of the training images, and test labels among those of the training set.
func LoadImages(dir string) (train, test *Images, err error) {
	paths, err := findSet(dir)
	if err != nil {
		return nil, nil, err
	}
	if train, err = loadPart(paths[0], paths[1]); err != nil {
		return nil, nil, err
	}
	if test, err = loadPart(paths[2], paths[3]); err != nil {
		return nil, nil, err
	}
	if test.H != train.H || test.W != train.W {
		return nil, nil, fmt.Errorf("data: %s: images of %dx%d: want %dx%d as in %s", paths[2], test.H, test.W, train.H, train.W, paths[0])
	}
	if test.Classes > train.Classes {
		return nil, nil, fmt.Errorf("data: %s: label %d: want 0 to %d as in %s", paths[3], test.Classes-1, train.Classes-1, paths[1])
	}
	test.Classes = train.Classes
	return train, test, nil
}

func loadPart(imagePath, labelPath string) (*Images, error) {
	x, err := openBytes(imagePath, 3)
	if err != nil {
		return nil, err
	}
	y, err := openBytes(labelPath, 1)
	if err != nil {
		return nil, err
	}
	if x.Shape[0] != y.Shape[0] {
		return nil, fmt.Errorf("data: %s: %d labels: want one for each of the %d images in %s", labelPath, y.Shape[0], x.Shape[0], imagePath)
	}
	return &Images{X: x.Data, Y: y.Data, N: x.Shape[0], H: x.Shape[1], W: x.Shape[2], Classes: int(slices.Max(y.Data)) + 1}, nil
}

// openBytes reads a uint8 array of the given rank that is not empty.
func openBytes(path string, rank int) (*IDX, error) {
	x, err := OpenIDX(path)
	if err != nil {
		return nil, err
	}
	if x.Type != Uint8 || len(x.Shape) != rank || len(x.Data) == 0 {
		return nil, fmt.Errorf("data: %s: %s%v: want uint8 of rank %d, not empty", path, x.Type, x.Shape, rank)
	}
	return x, nil
}

// findSet returns the paths of the four files, or the error that says which are missing.
func findSet(dir string) (paths [4]string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return paths, fmt.Errorf("data: folder %q: %w: %s", dir, reason(err), remedy)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	var missing []string
	for i, want := range setFiles {
		if name, ok := pick(names, want); ok {
			paths[i] = filepath.Join(dir, name)
		} else {
			missing = append(missing, want)
		}
	}
	if missing != nil {
		return paths, fmt.Errorf("data: folder %q: no %s; %s: %s", dir, strings.Join(missing, ", no "), contents(names), remedy)
	}
	return paths, nil
}

var remedy = "want a folder with the four IDX files of a data set, " + strings.Join(setFiles[:], ", ") +
	", each plain or with .gz (download them, or name the folder that has them)"

// reason returns what is wrong with a folder, without its path, and in the same words on every system where it is missing.
func reason(err error) error {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fs.ErrNotExist
	case errors.As(err, &pe):
		return pe.Err
	}
	return err
}

// pick finds one of the spellings of a file among names.
func pick(names []string, want string) (string, bool) {
	dotted := strings.Replace(want, "-idx", ".idx", 1)
	for _, name := range []string{want, dotted, want + ".gz", dotted + ".gz"} {
		if slices.Contains(names, name) {
			return name, true
		}
	}
	return "", false
}

// contents says what a folder holds, in a length that fits an error.
func contents(names []string) string {
	const most = 6
	switch n := len(names); {
	case n == 0:
		return "it is empty"
	case n > most:
		return fmt.Sprintf("it holds %s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return "it holds " + strings.Join(names, ", ")
}
