package ops_test

import (
	"math"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/philox"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

func attention(cfg ops.AttentionConfig) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value {
		if len(in) > 3 {
			cfg.Mask = in[3]
		}
		return ops.Attention(s, in[0], in[1], in[2], cfg)
	})
}

// refAttention is the formula; a mask is boolean if its elements are 0 and 1 only.
func refAttention(cfg ops.AttentionConfig) func([]array) []array {
	return want1(func(in []array) array {
		q, k, v := in[0], in[1], in[2]
		nb, nt, nh, d := q.shape[0], q.shape[1], q.shape[2], q.shape[3]
		ns, groups, shift := k.shape[1], k.shape[2], 0
		if cfg.Align == ops.AlignBottomRight {
			shift = ns - nt
		}
		scale := cfg.Scale
		if scale == 0 {
			scale = 1 / math.Sqrt(float64(max(1, d)))
		}
		m, isBool := array{nil, []float64{1}}, true
		if len(in) > 3 {
			m, isBool = in[3], !slices.ContainsFunc(in[3].data, func(v float64) bool { return v != 0 && v != 1 })
		}
		words := make([]uint32, nb*nh*nt*ns)
		philox.Fill(words, seed, 0, 0)
		y := newArray(nb, nt, nh, v.shape[3])
		for i := range nb * nt * nh {
			b, t, h := i/(nt*nh), i/nh%nt, i%nh
			p, sum := make([]float64, ns), 0.0
			for s := range p {
				bias := m.at(b, h, t, s)
				if cfg.Causal && s > t+shift || isBool && bias == 0 || math.IsInf(bias, -1) {
					continue
				}
				for e := range d {
					p[s] += q.at(b, t, h, e) * k.at(b, s, h*groups/nh, e) * scale
				}
				if !isBool {
					p[s] += bias
				}
				p[s] = math.Exp(p[s])
				sum += p[s]
			}
			for s := range p {
				if p[s] > 0 && float64(words[((b*nh+h)*nt+t)*ns+s]) >= cfg.Dropout*(1<<32) {
					for e := range v.shape[3] {
						y.data[i*v.shape[3]+e] += p[s] / sum / (1 - cfg.Dropout) * v.at(b, s, h*groups/nh, e)
					}
				}
			}
		}
		return y
	})
}

// attends is a row of attention: of q, k, v and perhaps a mask, small and large.
func attends(name string, cfg ops.AttentionConfig, in, large []arg) row {
	r := row{
		name: "attention/" + name, entry: "Attention", call: attention(cfg), want: refAttention(cfg), in: in, large: large,
		keeps: "q, k, v, out, log-sum-exp",
	}
	if len(in) > 3 {
		r.entry, r.keeps = "Attention, with a mask", "q, k, v, mask, out, log-sum-exp"
	}
	for _, a := range in {
		n := int64(len(newArray(a.shape...).data))
		if r.bytes += 4 * n; a.dt == tensor.Bool {
			r.bytes -= 3 * n
		}
	}
	q := in[0].shape
	r.bytes += int64(4 * q[0] * q[1] * q[2] * (in[2].shape[3] + 1)) // out and log-sum-exp: nothing of queries times keys
	return r
}

func boolMask(shape []int, set ...float64) arg {
	return arg{shape: shape, dt: tensor.Bool, below: 2, set: set}
}

func addMask(shape []int, set ...float64) arg { return arg{shape: shape, set: set} }

type att = ops.AttentionConfig

var attentionRows = []row{
	attends("plain", att{},
		[]arg{floats(1, 3, 2, 4), floats(1, 3, 2, 4), floats(1, 3, 2, 5)},
		[]arg{floats(2, 130, 4, 16), floats(2, 150, 4, 16), floats(2, 150, 4, 24)}),
	attends("causal", att{Causal: true},
		[]arg{floats(2, 4, 2, 2), floats(2, 4, 2, 2), floats(2, 4, 2, 2)},
		[]arg{floats(1, 200, 2, 16), floats(1, 200, 2, 16), floats(1, 200, 2, 16)}),
	attends("more keys, top left", att{Causal: true, Align: ops.AlignTopLeft},
		[]arg{floats(1, 2, 1, 2), floats(1, 5, 1, 2), floats(1, 5, 1, 3)},
		[]arg{floats(1, 70, 2, 8), floats(1, 140, 2, 8), floats(1, 140, 2, 8)}),
	attends("more keys, bottom right", att{Causal: true, Align: ops.AlignBottomRight},
		[]arg{floats(1, 2, 1, 2), floats(1, 5, 1, 2), floats(1, 5, 1, 3)},
		[]arg{floats(1, 70, 2, 8), floats(1, 140, 2, 8), floats(1, 140, 2, 8)}),
	attends("more queries, bottom right", att{Causal: true, Align: ops.AlignBottomRight},
		[]arg{floats(1, 5, 1, 2), floats(1, 2, 1, 2), floats(1, 2, 1, 3)},
		[]arg{floats(1, 140, 2, 8), floats(1, 70, 2, 8), floats(1, 70, 2, 8)}),
	attends("grouped queries", att{Causal: true, Scale: 0.7},
		[]arg{floats(4, 3, 6, 2), floats(4, 3, 2, 2), floats(4, 3, 2, 1)},
		[]arg{floats(4, 70, 6, 8), floats(4, 70, 2, 8), floats(4, 70, 2, 8)}),
	attends("dropout", att{Dropout: 0.4},
		[]arg{floats(1, 3, 4, 2), floats(1, 3, 2, 2), floats(1, 3, 2, 2)},
		[]arg{floats(1, 66, 4, 4), floats(1, 70, 2, 4), floats(1, 70, 2, 4)}),
	attends("causal, dropout", att{Dropout: 0.4, Causal: true},
		[]arg{floats(1, 5, 1, 2), floats(1, 5, 1, 2), floats(1, 5, 1, 3)}, nil),
	attends("all dropped", att{Dropout: 1},
		[]arg{floats(1, 2, 1, 2), floats(1, 2, 1, 2), floats(1, 2, 1, 2)}, nil),

	attends("padding", att{},
		[]arg{floats(2, 3, 1, 2), floats(2, 4, 1, 2), floats(2, 4, 1, 2), boolMask([]int{2, 1, 1, 4}, 1, 1, 0, 1, 0, 1, 0, 0)},
		[]arg{floats(2, 66, 2, 4), floats(2, 130, 2, 4), floats(2, 130, 2, 4), boolMask([]int{2, 1, 1, 130})}),
	attends("padding, causal", att{Causal: true},
		[]arg{floats(2, 4, 1, 2), floats(2, 4, 1, 2), floats(2, 4, 1, 2), boolMask([]int{2, 1, 1, 4}, 1, 1, 0, 1, 0, 0, 0, 0)},
		[]arg{floats(2, 130, 2, 4), floats(2, 130, 2, 4), floats(2, 130, 2, 4), boolMask([]int{2, 1, 1, 130})}),
	attends("boolean mask", att{},
		[]arg{floats(1, 3, 2, 2), floats(1, 3, 2, 2), floats(1, 3, 2, 2), boolMask([]int{3, 3}, 1, 0, 1, 0, 0, 0, 1, 1, 1)},
		[]arg{floats(1, 130, 2, 4), floats(1, 130, 2, 4), floats(1, 130, 2, 4), boolMask([]int{130, 130})}),
	attends("additive mask", att{},
		[]arg{floats(1, 3, 2, 2), floats(1, 2, 2, 2), floats(1, 2, 2, 2),
			addMask([]int{1, 2, 3, 2}, 0.5, -inf, 1, 2, -inf, -inf, 0.25, 0, -1, 3, -inf, 1)},
		[]arg{floats(2, 130, 2, 4), floats(2, 70, 2, 4), floats(2, 70, 2, 4), addMask([]int{2, 2, 130, 70})}),
	attends("bias of heads", att{Causal: true, Dropout: 0.25},
		[]arg{floats(2, 3, 4, 2), floats(2, 3, 2, 2), floats(2, 3, 2, 2), addMask([]int{4, 1, 3})},
		[]arg{floats(3, 70, 4, 4), floats(3, 70, 4, 4), floats(3, 70, 4, 4), addMask([]int{4, 70, 70})}),
	attends("bias of queries", att{Scale: -1},
		[]arg{floats(2, 3, 1, 2), floats(2, 4, 1, 2), floats(2, 4, 1, 2), addMask([]int{3, 1})}, nil), // softmax does not see it
	attends("one number", att{Causal: true},
		[]arg{floats(1, 2, 1, 2), floats(1, 2, 1, 2), floats(1, 2, 1, 2), addMask([]int{})}, nil),

	attends("one query, one key", att{}, []arg{floats(1, 1, 1, 1), floats(1, 1, 1, 1), floats(1, 1, 1, 1)}, nil),
	attends("no queries", att{}, []arg{floats(1, 0, 2, 2), floats(1, 2, 2, 2), floats(1, 2, 2, 3)}, nil),
	attends("no keys", att{}, []arg{floats(1, 2, 2, 2), floats(1, 0, 2, 2), floats(1, 0, 2, 3)}, nil),
	attends("no keys, bias", att{}, []arg{floats(1, 2, 2, 2), floats(1, 0, 2, 2), floats(1, 0, 2, 3), addMask([]int{2, 0})}, nil),
	attends("no queries, bias", att{}, []arg{floats(1, 0, 2, 2), floats(1, 2, 2, 2), floats(1, 2, 2, 3), addMask([]int{2})}, nil),
	attends("no entries", att{}, []arg{floats(0, 2, 2, 2), floats(0, 3, 2, 2), floats(0, 3, 2, 3)}, nil),
	attends("no heads", att{}, []arg{floats(1, 2, 0, 2), floats(1, 3, 0, 2), floats(1, 3, 0, 3)}, nil),
	attends("no query heads", att{}, []arg{floats(1, 2, 0, 2), floats(1, 3, 2, 2), floats(1, 3, 2, 3)}, nil),
	attends("no dimensions", att{}, []arg{floats(1, 2, 1, 0), floats(1, 3, 1, 0), floats(1, 3, 1, 3)}, nil),
	attends("no values", att{}, []arg{floats(1, 2, 1, 2), floats(1, 3, 1, 2), floats(1, 3, 1, 0)}, nil),

	{
		name: "rms_norm", entry: "RMSNorm", call: rmsNorm(1e-6), want: refRMSNorm(1e-6),
		in:    []arg{floats(2, 3, 6), floats(6)},
		large: []arg{floats(40, 20, 600), floats(600)},
		keeps: "x, weight, rstd", bytes: 2*3*6*4 + 6*4 + 2*3*4,
	},
	{
		name: "rms_norm/tall", entry: "RMSNorm", call: rmsNorm(0), want: refRMSNorm(0),
		in:    []arg{floats(5), floats(5)},
		large: []arg{floats(9000, 3), floats(3)},
		keeps: "x, weight, rstd", bytes: 5*4 + 5*4 + 4,
	},
	{
		name: "rms_norm/plain", entry: "RMSNorm, weight nil", call: rmsNorm(1e-5), want: refRMSNorm(1e-5),
		in:    []arg{floats(4, 6)},
		large: []arg{floats(200, 300)},
		keeps: "x, rstd", bytes: 4*6*4 + 4*4,
	},
	{
		name: "rms_norm/no rows", entry: "RMSNorm", call: rmsNorm(1e-5), want: refRMSNorm(1e-5),
		in:    []arg{floats(2, 0, 4), floats(4)},
		keeps: "x, weight, rstd", bytes: 4 * 4,
	},
	{
		name: "rms_norm/no columns", entry: "RMSNorm", call: rmsNorm(1e-5), want: refRMSNorm(1e-5),
		in:    []arg{floats(2, 0), floats(0)},
		keeps: "x, weight, rstd", bytes: 2 * 4,
	},

	{
		name: "rope", entry: "RoPE", call: rope(ops.RoPEConfig{}), want: refRoPE(ops.RoPEConfig{}),
		in:    []arg{floats(2, 3, 2, 6)},
		large: []arg{floats(3, 200, 4, 32)},
	},
	{
		name: "rope/interleaved", entry: "RoPE", in: []arg{floats(1, 4, 2, 4)},
		call: rope(ops.RoPEConfig{Offset: 7, Base: 500, Interleaved: true}),
		want: refRoPE(ops.RoPEConfig{Offset: 7, Base: 500, Interleaved: true}),
	},
	{
		name: "rope/no steps", entry: "RoPE", call: rope(ops.RoPEConfig{}), want: refRoPE(ops.RoPEConfig{}),
		in: []arg{floats(2, 0, 2, 6)},
	},
	{
		name: "rope/no dimensions", entry: "RoPE", call: rope(ops.RoPEConfig{}), want: refRoPE(ops.RoPEConfig{}),
		in: []arg{floats(2, 3, 2, 0)},
	},
}

func rmsNorm(eps float64) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value {
		in = append(append([]value{}, in...), nil)
		return ops.RMSNorm(s, in[0], in[1], eps)
	})
}

func refRMSNorm(eps float64) func([]array) []array {
	return want1(func(in []array) array {
		x := in[0]
		y, c := newArray(x.shape...), x.shape[len(x.shape)-1]
		for i := range y.data {
			mean := 0.0
			for _, v := range x.data[i/c*c:][:c] {
				mean += v * v / float64(c)
			}
			if y.data[i] = x.data[i] / math.Sqrt(mean+eps); len(in) > 1 {
				y.data[i] *= in[1].data[i%c]
			}
		}
		return y
	})
}

func rope(cfg ops.RoPEConfig) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return ops.RoPE(s, x, cfg) })
}

// refRoPE multiplies complex numbers.
func refRoPE(cfg ops.RoPEConfig) func([]array) []array {
	return want1(func(in []array) array {
		x := in[0]
		y, d := newArray(x.shape...), x.shape[3]
		if cfg.Base == 0 {
			cfg.Base = 10000
		}
		for i := range len(x.data) / max(1, d) * (d / 2) {
			head, pair := i/(d/2), i%(d/2)
			p, q := head*d+pair, head*d+pair+d/2
			if cfg.Interleaved {
				p, q = head*d+2*pair, head*d+2*pair+1
			}
			position := float64(cfg.Offset + head/x.shape[2]%x.shape[1])
			sin, cos := math.Sincos(position * math.Pow(cfg.Base, -2*float64(pair)/float64(d)))
			z := complex(x.data[p], x.data[q]) * complex(cos, sin)
			y.data[p], y.data[q] = real(z), imag(z)
		}
		return y
	})
}
