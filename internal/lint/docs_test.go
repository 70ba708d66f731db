package lint

import (
	"go/ast"
	"strings"
	"testing"
)

// TestEverythingExportedIsDocumented asks for a doc comment on each exported name, method and package, and on exported
// fields unless they share a documented line or block.
func TestEverythingExportedIsDocumented(t *testing.T) {
	packages := map[string]bool{}
	for _, f := range tree(t) {
		if f.test || f.ast.Name.Name == "main" {
			continue
		}
		packages[f.dir] = packages[f.dir] || f.ast.Doc != nil
		for _, decl := range f.ast.Decls {
			checkDoc(t, f, decl)
		}
	}
	for dir, documented := range packages {
		if !documented {
			t.Errorf("package %q has no package comment", dir)
		}
	}
}

func checkDoc(t *testing.T, f file, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
			t.Errorf("%s: %s has no doc comment", f.line(d), d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			checkSpec(t, f, d, spec)
		}
	}
}

func checkSpec(t *testing.T, f file, d *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
			t.Errorf("%s: type %s has no doc comment", f.line(s), s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
				t.Errorf("%s: %s has no doc comment", f.line(s), name.Name)
			}
		}
	}
}

// exportedReceiver is true for functions and for methods of exported types.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// TestExamples asks for at least one runnable Example in each public package (README and law of style).
func TestExamples(t *testing.T) {
	has := map[string]bool{}
	public := map[string]bool{}
	for _, f := range tree(t) {
		if strings.Contains(f.dir, "internal") || strings.HasPrefix(f.dir, "examples") || f.dir == "" || f.ast.Name.Name == "main" {
			continue
		}
		public[f.dir] = true
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			has[f.dir] = has[f.dir] || ok && f.test && strings.HasPrefix(fn.Name.Name, "Example")
		}
	}
	for dir := range public {
		if !has[dir] {
			t.Errorf("package %s has no runnable Example", dir)
		}
	}
}
