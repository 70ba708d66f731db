package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/thimble-ml/thimble/tensor"
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

// Sequences is b, cut into stretches of t tokens, as items of a [Loader]: the tokens, and those that follow each, Int64 of
// shape [t]. What is left at the end is too short for one, and is left out.
func Sequences(b []byte, t int) (Dataset, error) {
	switch {
	case t < 1:
		return nil, fmt.Errorf("data: sequences of %d tokens: want 1 or more", t)
	case len(b) <= t:
		return nil, fmt.Errorf("data: sequences of %d tokens: a text of %d bytes has none: want %d or more", t, len(b), t+1)
	}
	return sequences{b, t}, nil
}

type sequences struct {
	b []byte
	t int
}

func (s sequences) Len() int { return (len(s.b) - 1) / s.t }

func (s sequences) Fields() []tensor.Spec {
	ids := tensor.Of(tensor.Int64, s.t)
	return []tensor.Spec{ids, ids}
}

func (s sequences) Get(_ context.Context, item *Item) error {
	from := s.b[item.Index()*s.t:][:s.t+1]
	x, y := Field[int64](item, 0), Field[int64](item, 1)
	for j := range x {
		x[j], y[j] = int64(from[j]), int64(from[j+1])
	}
	return nil
}
