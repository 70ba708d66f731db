package optim

import (
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// Adafactor keeps of a matrix's second moment only the means of its rows and columns (Shazeer and Stern, 2018), in torch's
// form. For each parameter p with gradient g at its t-th step, the last two dimensions being rows and columns:
//
//	b    = t^BetaDecay                                     g is -g, if Maximize
//	r    = r + b (mean of g^2 over columns - r)            c likewise over rows
//	v    = r c / max(mean r, Eps1)
//	u    = g / sqrt(max(v, Eps1^2))
//	rho  = min(lr, 1/sqrt(t))
//	p    = p (1 - lr weightDecay) - max(Eps2, rms p) rho u / max(1, rms(u)/Clip)
//
// A parameter of fewer than two dimensions keeps v whole. There is no momentum.
//
// State: r and c, rows plus columns numbers for each matrix; v for vectors.
type Adafactor struct{ core }

// AdafactorConfig are the hyper-parameters of Adafactor.
type AdafactorConfig struct {
	// LR bounds the relative step, above 0. Required; torch's default is 1e-2.
	LR float64
	// BetaDecay is the exponent by which the moments forget, below 0. Default -0.8.
	BetaDecay float64
	// Eps1 keeps the moments from zero. Default: the least difference of the parameter's type, 2^-23 in float32.
	Eps1 float64
	// Eps2 is the least size of a parameter that a step is relative to. Default 1e-3.
	Eps2 float64
	// Clip is the largest root mean square of an update. Default 1.
	Clip float64
	// WeightDecay shrinks the parameter by LR times WeightDecay a step; 0: not at all.
	WeightDecay float64
	// Maximize climbs instead of descending.
	Maximize bool
	// Store is where the state is kept: in files, in other memory (package offload). nil: on the device.
	Store StateStore
}

// AdafactorGroup is a set of parameters with hyper-parameters of their own.
type AdafactorGroup = Group[AdafactorConfig]

// NewAdafactor makes an optimizer of params, which must be trainable, distinct and of one session, and allocates its
// state. Errors name the parameter or the field with its value; if memory ran out, errors.As finds the *memory.OOMError
// and nothing is held.
func NewAdafactor(params []*autograd.Param, cfg AdafactorConfig) (*Adafactor, error) {
	return newAdafactor("NewAdafactor", AdafactorGroup{params, cfg})
}

// NewAdafactorGroups is NewAdafactor for groups, each with its own hyper-parameters. No parameter may be in two.
func NewAdafactorGroups(groups ...AdafactorGroup) (*Adafactor, error) {
	return newAdafactor("NewAdafactorGroups", groups...)
}

func newAdafactor(maker string, groups ...AdafactorGroup) (*Adafactor, error) {
	o := &Adafactor{core{name: "Adafactor", op: "adafactor"}}
	if err := openGroups(&o.core, maker, groups); err != nil {
		return nil, err
	}
	return o, nil
}

func (c *AdafactorConfig) check() error {
	if c.BetaDecay == 0 {
		c.BetaDecay = -0.8
	}
	if c.Eps2 == 0 {
		c.Eps2 = 1e-3
	}
	if c.Clip == 0 {
		c.Clip = 1
	}
	return first(
		notNegative("LR", c.LR),
		failIf(!(c.BetaDecay < 0) || math.IsInf(c.BetaDecay, 0), "BetaDecay must be below 0"),
		notNegative("Eps1", c.Eps1),
		notNegative("Eps2", c.Eps2),
		positive("Clip", c.Clip),
		notNegative("WeightDecay", c.WeightDecay),
	)
}

func (c *AdafactorConfig) rate() *float64 { return &c.LR }

func (c *AdafactorConfig) fields() []field {
	return []field{
		{name: "lr", num: &c.LR},
		{name: "beta2_decay", num: &c.BetaDecay},
		{name: "eps1", num: &c.Eps1},
		{name: "eps2", num: &c.Eps2},
		{name: "d", num: &c.Clip},
		{name: "weight_decay", num: &c.WeightDecay},
		{name: "maximize", flag: &c.Maximize},
	}
}

func (c *AdafactorConfig) state(spec tensor.Spec) []moment {
	if spec.Rank() < 2 {
		return moments(spec, "variance")
	}
	batch := spec.Shape[:spec.Rank()-2]
	of := func(name string, n int) moment {
		return moment{name, tensor.Of(spec.DType, append(append([]int{}, batch...), n)...)}
	}
	return []moment{of("row_var", spec.Dim(-2)), of("col_var", spec.Dim(-1))}
}

func (c *AdafactorConfig) store() StateStore { return c.Store }

func (c *AdafactorConfig) clone() config {
	d := *c
	return &d
}

func (c *AdafactorConfig) update(*slot, int, int) {
	panic("optim: Adafactor works on whole parameters")
}

func (c *AdafactorConfig) scratch(spec tensor.Spec) int64 {
	if spec.Rank() < 2 {
		return 0
	}
	return 8 * int64(spec.Dim(-1))
}

func (c *AdafactorConfig) step(lane []byte, sl *slot) {
	switch {
	case sl.par.Spec().Elems() == 0:
	case sl.par.Spec().DType == tensor.Float32:
		newFactored[float32](c, sl, 0x1p-23).step(kernel.View[float64](lane))
	default:
		newFactored[float64](c, sl, 0x1p-52).step(kernel.View[float64](lane))
	}
}

// factored is one step of one parameter.
type factored[T kernel.Float] struct {
	sl                    *slot
	p, g                  []T
	b, eps1, sign, shrink float64
	alpha, clip           float64
	matrices, rows, cols  int
}

func newFactored[T kernel.Float](c *AdafactorConfig, sl *slot, least float64) *factored[T] {
	t := float64(sl.steps + 1)
	f := &factored[T]{
		sl: sl, p: tensor.Data[T](&sl.w), g: tensor.Data[T](&sl.g),
		b: math.Pow(t, c.BetaDecay), eps1: c.Eps1, sign: 1, shrink: 1 - c.LR*c.WeightDecay, clip: c.Clip,
	}
	if f.eps1 == 0 {
		f.eps1 = least
	}
	if c.Maximize {
		f.sign = -1
	}
	rms := math.Sqrt(kernel.SumSquares(f.p) / float64(len(f.p)))
	f.alpha = math.Max(c.Eps2, rms) * math.Min(c.LR, 1/math.Sqrt(t))
	if spec := sl.par.Spec(); spec.Rank() >= 2 {
		f.rows, f.cols = spec.Dim(-2), spec.Dim(-1)
		f.matrices = len(f.p) / (f.rows * f.cols)
	}
	return f
}

// move is by how much an update with that sum of squares is multiplied.
func (f *factored[T]) move(squares float64) float64 {
	return f.alpha / math.Max(1, math.Sqrt(squares/float64(len(f.p)))/f.clip)
}

func (f *factored[T]) step(sums []float64) {
	if f.matrices == 0 {
		v := tensor.Data[T](&f.sl.state[0])
		squares := kernel.AdafactorWhole(f.p, f.g, v, true, f.b, f.eps1, f.sign, 1, 0)
		kernel.AdafactorWhole(f.p, f.g, v, false, f.b, f.eps1, f.sign, f.shrink, f.move(squares))
		return
	}
	var squares float64
	for i := range f.matrices {
		_, g, r, c := f.matrix(i)
		kernel.AdafactorMoments(r, c, g, f.rows, f.cols, f.b, f.sign, sums)
		squares += f.update(i, 1, 0)
	}
	move := f.move(squares)
	for i := range f.matrices {
		f.update(i, f.shrink, move)
	}
}

// update gives the sum of squares of one matrix's update, and applies it times move if that is not 0.
func (f *factored[T]) update(i int, shrink, move float64) float64 {
	p, g, r, c := f.matrix(i)
	return kernel.AdafactorFactored(p, g, r, c, f.rows, f.cols, f.eps1, f.sign, shrink, move)
}

// matrix is the i-th matrix of the parameter, its gradient, and the means of its rows and columns.
func (f *factored[T]) matrix(i int) (p, g, r, c []T) {
	n := f.rows * f.cols
	return f.p[i*n:][:n], f.g[i*n:][:n], tensor.Data[T](&f.sl.state[0])[i*f.rows:][:f.rows], tensor.Data[T](&f.sl.state[1])[i*f.cols:][:f.cols]
}
