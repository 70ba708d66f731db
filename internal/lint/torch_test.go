package lint

import (
	"go/ast"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// receivers are the letters that docs/torch.md writes for values of these types.
var receivers = map[string]string{
	"s": "autograd.Scope", "v": "autograd.Value", "p": "autograd.Param", "sess": "autograd.Session", "dev": "memory.Device", "t": "tensor.Tensor",
	"opt": "optim.AdamW", "sched": "optim.Schedule", "w": "train.Window",
	"scaler": "amp.GradScaler", "l": "data.Loader", "e": "data.Epoch", "it": "data.Item",
}

var (
	codeSpan = regexp.MustCompile("`[^`]+`")
	goName   = regexp.MustCompile(`(^|[^\w.])([a-z]+)\.([A-Z]\w*)`)
)

// TestTorchNames checks that every Go name in docs/torch.md exists, and that every function of ops is in it.
func TestTorchNames(t *testing.T) {
	text, err := os.ReadFile("../../docs/torch.md")
	require.NoError(t, err)
	packages, names := exported(t)
	written := map[string]bool{}
	for _, code := range codeSpan.FindAllString(string(text), -1) {
		for _, m := range goName.FindAllStringSubmatch(strings.Trim(code, "`"), -1) {
			left, name := m[2], m[2]+"."+m[3]
			if typ, ok := receivers[left]; ok {
				name = typ + "." + m[3]
			} else if !packages[left] {
				t.Errorf("%s: %q is neither a package nor one of the letters that the page explains", code, left)
				continue
			}
			written[name] = true
			if _, ok := names[name]; !ok {
				t.Errorf("%s: there is no %s", code, name)
			}
		}
	}
	for name, function := range names {
		if function && strings.HasPrefix(name, "ops.") && name != "ops.Catalog" && !written[name] {
			t.Errorf("docs/torch.md lacks %s", name)
		}
	}
}

// exported gives the public packages and their exported names: "ops.Add", "autograd.Scope.NoGrad"; true for functions.
func exported(t *testing.T) (packages, names map[string]bool) {
	packages, names = map[string]bool{}, map[string]bool{}
	promoted := map[string][]string{} // embedded structs of the same package
	for _, f := range library(tree(t)) {
		if strings.HasPrefix(f.dir, "internal") {
			continue
		}
		pkg := f.ast.Name.Name
		packages[pkg] = true
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					names[pkg+"."+method(d)+d.Name.Name] = d.Recv == nil
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					exportedSpec(pkg, spec, names, promoted)
				}
			}
		}
	}
	for outer, embedded := range promoted {
		for _, in := range embedded {
			for _, name := range slices.Collect(maps.Keys(names)) {
				if m, ok := strings.CutPrefix(name, in+"."); ok {
					names[outer+"."+m] = false
				}
			}
		}
	}
	return packages, names
}

// method is the receiver's type and a dot, "" for a function.
func method(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	return typeName(d.Recv.List[0].Type) + "."
}

func typeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func exportedSpec(pkg string, spec ast.Spec, names map[string]bool, promoted map[string][]string) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[pkg+"."+n.Name] = false
		}
	case *ast.TypeSpec:
		outer := pkg + "." + s.Name.Name
		names[outer] = false
		var fields *ast.FieldList
		switch typ := s.Type.(type) {
		case *ast.StructType:
			fields = typ.Fields
		case *ast.InterfaceType:
			fields = typ.Methods
		default:
			return
		}
		for _, field := range fields.List {
			if len(field.Names) == 0 {
				promoted[outer] = append(promoted[outer], pkg+"."+typeName(field.Type))
			}
			for _, n := range field.Names {
				names[outer+"."+n.Name] = false
			}
		}
	}
}
