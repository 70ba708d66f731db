package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Text is a corpus of bytes: token ids are byte values, so the vocabulary is 256 for any language.
type Text struct {
	Train, Test []byte
}

// Vocabulary is the number of token ids of a Text.
const Vocabulary = 256

// LoadText reads the file at path, or all files below the folder at path whose names end in suffix ("" takes all), in
// the order of their paths, until limit bytes are read (0: no limit). The last tenth is the test set.
func LoadText(path, suffix string, limit int) (*Text, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("data: text: %w: want a file or a folder of files", err)
	}
	var b []byte
	if info.IsDir() {
		b, err = readTree(path, suffix, limit)
	} else {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("data: text: %w", err)
	}
	if limit > 0 && len(b) > limit {
		b = b[:limit]
	}
	return NewText(b, path)
}

// NewText splits b; name stands in the error.
func NewText(b []byte, name string) (*Text, error) {
	if len(b) < 20 {
		return nil, fmt.Errorf("data: text: %s has %d bytes: want 20 or more", name, len(b))
	}
	at := len(b) - len(b)/10
	return &Text{Train: b[:at:at], Test: b[at:]}, nil
}

var errEnough = errors.New("enough")

func readTree(root, suffix string, limit int) ([]byte, error) {
	var all []byte
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(d.Name(), suffix) {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all = append(all, b...)
		if limit > 0 && len(all) >= limit {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("folder %s has no files that end in %q", root, suffix)
	}
	return all, err
}

// Windows is how many stretches of t tokens with their successors b holds: the number of places that Shuffle orders.
func Windows(b []byte, t int) int { return max(0, (len(b)-1)/t) }

// Sequences writes stretches of t tokens, numbered by idx from 0 to Windows-1, to x and the tokens that follow each to y:
// len(idx)*t ids each, both the caller's; nothing is allocated. When a length or an index is wrong it returns an error
// and writes nothing.
func Sequences(b []byte, t int, idx []int32, x, y []int64) error {
	switch {
	case t < 1:
		return fmt.Errorf("data: sequences of %d tokens: want 1 or more", t)
	case len(x) != len(idx)*t || len(y) != len(idx)*t:
		return fmt.Errorf("data: %d sequences of %d tokens into %d and %d ids: want %d", len(idx), t, len(x), len(y), len(idx)*t)
	}
	n := Windows(b, t)
	for _, i := range idx {
		if i < 0 || int(i) >= n {
			return fmt.Errorf("data: sequence %d: want 0 to %d", i, n-1)
		}
	}
	for k, i := range idx {
		from := b[int(i)*t:]
		for j := range t {
			x[k*t+j], y[k*t+j] = int64(from[j]), int64(from[j+1])
		}
	}
	return nil
}
