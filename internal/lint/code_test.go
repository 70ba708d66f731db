package lint

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recovers lists the only functions that may call recover (law E1).
var recovers = []string{
	"autograd/session.go:run",
	"autograd/replay.go:Replay",
	"data/worker.go:get",
	"internal/pool/",
}

// unsafeUsers may import unsafe; everywhere else it is an error. (kerneltest compares bits.)
var unsafeUsers = []string{"memory", "tensor", "internal/kernel", "internal/kernel/kerneltest"}

// forbidden calls of a library that never logs, prints, exits or reads the environment, and that leaves nothing to the
// collector.
var forbidden = map[string]string{
	"fmt.Print": "", "fmt.Println": "", "fmt.Printf": "", "os.Exit": "", "os.Getenv": "", "os.LookupEnv": "", "os.Environ": "",
	"runtime.SetFinalizer": "", "runtime.AddCleanup": "",
}

func TestLibraryIsQuiet(t *testing.T) {
	for _, f := range library(tree(t)) {
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if path == "log" || path == "log/slog" || path == "flag" || path == "testing" && !strings.HasSuffix(f.dir, "test") {
				t.Errorf("%s imports %s", f.path, path)
			}
			if path == "unsafe" && !slices.Contains(unsafeUsers, f.dir) {
				t.Errorf("%s imports unsafe: only memory, tensor.Data and kernels do", f.path)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				checkCall(t, f, call)
			}
			return true
		})
	}
}

func checkCall(t *testing.T, f file, call *ast.CallExpr) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	if pkg, ok := sel.X.(*ast.Ident); ok {
		if _, bad := forbidden[pkg.Name+"."+sel.Sel.Name]; bad {
			t.Errorf("%s: %s.%s in the library", f.line(call), pkg.Name, sel.Sel.Name)
		}
	}
}

func TestRecoverStandsInFewPlaces(t *testing.T) {
	for _, f := range library(tree(t)) {
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "recover" && !mayRecover(f.path+":"+fn.Name.Name) {
					t.Errorf("%s: recover in %s: law E1 names the places", f.line(call), fn.Name.Name)
				}
				return true
			})
		}
	}
}

func mayRecover(place string) bool {
	return slices.ContainsFunc(recovers, func(r string) bool { return strings.HasPrefix(place, r) })
}

// Sizes that docs/design.md and CONTRIBUTING.md state.
const (
	maxFuncLines = 120 // outside kernels
	maxFileLines = 450 // without tests
)

func TestSizes(t *testing.T) {
	for _, f := range tree(t) {
		if n := f.fset.Position(f.ast.End()).Line; n > maxFileLines && !f.test {
			t.Errorf("%s has %d lines: at most %d; one subject a file", f.path, n, maxFileLines)
		}
		if strings.HasPrefix(f.dir, "internal/kernel") || f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line; n > maxFuncLines {
				t.Errorf("%s: %s has %d lines: at most %d", f.line(fn), fn.Name.Name, n, maxFuncLines)
			}
		}
	}
}

// badNames say nothing about what is inside.
var badNames = []string{"util", "utils", "common", "types", "core", "context", "helpers", "misc"}

func TestPackageNames(t *testing.T) {
	for _, f := range tree(t) {
		if slices.Contains(badNames, f.ast.Name.Name) {
			t.Errorf("%s: package %s: a name that says nothing", f.path, f.ast.Name.Name)
		}
	}
}
