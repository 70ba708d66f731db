package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// A trace sees each op after it has run, with its values, and again before it runs backward, with the whole gradient.
func TestTrace(t *testing.T) {
	r := newRig(t, memory.Config{})
	p := r.param("w", []float64{2, 3}, 2)
	x := r.tensor([]float64{5, 7}, 2)
	type seen struct {
		op       string
		backward bool
		scope    string
		params   []string
		out      []float64
	}
	var got []seen
	f := func(s *autograd.Scope) error {
		y := s.Do("net", func(s *autograd.Scope) *autograd.Value { return mul(s, s.Input(x), p.Value()) })
		sum(s, add(s, y, y)).Backward(s)
		return nil
	}
	r.sess.SetTrace(func(c autograd.Traced) {
		if len(c.In) > 0 {
			require.Equal(t, tensor.Float64, c.In[0].DType)
		}
		got = append(got, seen{c.Rule.Name, c.Backward, c.Site.Scope, c.Params, append([]float64(nil), tensor.Data[float64](c.Out[0])...)})
	})
	_, err := r.sess.Plan(f, autograd.PlanConfig{})
	require.NoError(t, err)
	require.Empty(t, got, "a dry run has nothing to read")
	r.ok(func(s *autograd.Scope) { require.NoError(t, f(s)) })
	require.Equal(t, []seen{
		{"testmul", false, "net", []string{"", "w"}, []float64{10, 21}},
		{"testadd", false, "", []string{"", ""}, []float64{20, 42}},
		{"testsum", false, "", []string{""}, []float64{62}},
		{"testsum", true, "", nil, []float64{1}},
		{"testadd", true, "", nil, []float64{1, 1}},
		{"testmul", true, "net", nil, []float64{2, 2}},
	}, got)
	require.Equal(t, []float64{10, 14}, grad(p))

	r.sess.SetTrace(nil)
	p.ZeroGrad()
	r.ok(func(s *autograd.Scope) { require.NoError(t, f(s)) })
	require.Len(t, got, 6)
	p.ZeroGrad()
}
