package ops_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// declaredRules gives the Name of every autograd.Rule literal in the package's source.
func declaredRules(t *testing.T) (names []string) {
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && isRule(lit.Type) {
				names = append(names, ruleName(t, lit))
			}
			return true
		})
	}
	return names
}

func isRule(x ast.Expr) bool {
	sel, ok := x.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Rule"
}

func ruleName(t *testing.T, lit *ast.CompositeLit) string {
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if ok && kv.Key.(*ast.Ident).Name == "Name" {
			name, err := strconv.Unquote(kv.Value.(*ast.BasicLit).Value)
			require.NoError(t, err)
			return name
		}
	}
	require.FailNow(t, "a Rule without a Name")
	return ""
}

// Every rule of the source is in the catalog, once, with as many names as it numbers.
func TestCatalogIsComplete(t *testing.T) {
	var listed []string
	seen := map[*autograd.Rule]bool{}
	for _, e := range ops.Catalog() {
		r := e.Op.Rule()
		require.False(t, seen[r], "%s is listed twice", e.Func)
		seen[r] = true
		listed = append(listed, r.Name)
		require.LessOrEqual(t, len(r.Reads), len(e.In), e.Func)
		for i, refs := range r.Reads {
			require.False(t, e.In[i].Integer && len(refs) > 0)
			for _, ref := range refs {
				require.Less(t, int(ref), len(e.In), e.Func)
				require.Less(t, int(^ref), len(e.Out), e.Func)
			}
		}
	}
	require.ElementsMatch(t, append(declaredRules(t), "cast"), listed) // cast is the engine's own
}

// Every rule of the catalog has a row in the table, and the row really runs that rule.
func TestTableIsComplete(t *testing.T) {
	rows := map[string]bool{}
	eachRow(t, func(t *testing.T, r *row) {
		rows[r.entry] = true
		e := entryOf(t, r.entry)
		j := r.job(t, autograd.Config{}, r.in, tensor.Float32, plain)
		defer j.close()
		if _, view := e.Op.(autograd.Viewer); view {
			require.True(t, strings.HasPrefix(r.name, e.Op.Rule().Name))
			return
		}
		sites := map[string]bool{}
		old := j.dev.SetTrace(func(ev memory.Event) { sites[ev.Site.Op] = true })
		defer func() { j.dev.SetTrace(old) }()
		j.run()
		if !e.Op.Rule().InPlace {
			require.Contains(t, sites, e.Op.Rule().Name)
		}
	})
	for _, e := range ops.Catalog() {
		require.True(t, rows[e.Func], "no row for %s", e.Func)
	}
}
