package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/thimble-ml/thimble"

// file is one Go file of the module, test files included.
type file struct {
	path string // from the module's root, with slashes
	dir  string // "" for the root package
	test bool
	ast  *ast.File
	fset *token.FileSet
}

// tree gives all Go files of the module, parsed once.
func tree(t *testing.T) []file {
	t.Helper()
	files, err := parsed()
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

var parsed = sync.OnceValues(parse)

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// parse leaves out nested modules and testdata.
func parse() ([]file, error) {
	const root = "../.."
	var files []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || isModule(path)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		dir := strings.TrimSuffix(rel, name)
		files = append(files, file{rel, strings.TrimSuffix(dir, "/"), strings.HasSuffix(name, "_test.go"), f, fset})
		return nil
	})
	return files, err
}

// library gives the files that users import: no tests, no examples, no internal tools.
func library(files []file) (lib []file) {
	for _, f := range files {
		if !f.test && !strings.HasPrefix(f.dir, "examples") && f.ast.Name.Name != "main" && f.dir != "internal/lint" {
			lib = append(lib, f)
		}
	}
	return lib
}

// line is where n starts, for messages.
func (f file) line(n ast.Node) string { return f.fset.Position(n.Pos()).String() }
