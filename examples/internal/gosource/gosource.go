// Package gosource finds the source of Go's standard library, a text that every machine with Go has.
package gosource

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/thimble-ml/thimble/data"
)

// Load reads up to limit bytes of text: path, a file or a folder, or, if path is "", Go files of the standard library.
func Load(ctx context.Context, path string, limit int) (*data.Text, error) {
	if path != "" {
		return data.LoadText(path, "", limit)
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("gosource: go env GOROOT: %w: put go on the path, or give a file or folder with -data", err)
	}
	return data.LoadText(filepath.Join(strings.TrimSpace(string(root)), "src"), ".go", limit)
}
