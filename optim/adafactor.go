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
	// Half says how parameters of a half type take an update. Default RoundNearest; it changes nothing for others.
	Half HalfUpdate
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

func (c *AdafactorConfig) half() HalfUpdate { return c.Half }

func (c *AdafactorConfig) store() StateStore { return c.Store }

func (c *AdafactorConfig) clone() config {
	d := *c
	return &d
}

func (c *AdafactorConfig) update(*slot, int, int) {
	panic("optim: Adafactor works on whole parameters")
}

// scratch is for sums over columns, and of a half type for the block that is widened.
func (c *AdafactorConfig) scratch(spec tensor.Spec) (n int64) {
	block := min(wideBlock, spec.Elems())
	if spec.Rank() >= 2 {
		n = 8 * int64(spec.Dim(-1))
		block = wideRows(spec) * spec.Dim(-1)
	}
	if isHalf(spec.DType) {
		n += 2 * 4 * int64(block)
	}
	return n
}

// wideRows is how many rows of a matrix of a half type are widened at a time.
func wideRows(spec tensor.Spec) int { return max(1, min(spec.Dim(-2), wideBlock/max(1, spec.Dim(-1)))) }

func (c *AdafactorConfig) step(lane []byte, sl *slot) {
	switch {
	case sl.par.Spec().Elems() == 0:
	case sl.double():
		adafactor(c, sl, lane, inPlace[float64]{sl}, 0x1p-52)
	case sl.wide != nil:
		adafactor(c, sl, lane, byBlock{sl.wide}, 0x1p-23)
	default:
		adafactor(c, sl, lane, inPlace[float32]{sl}, 0x1p-23)
	}
}

// source gives the numbers of a parameter and of its gradient, some at a time: those of a half type are widened.
type source[T kernel.Float] interface {
	// open gives elements [lo, lo+n); close puts the parameter's back.
	open(room []byte, lo, n int) (p, g []T)
	close()
}

type inPlace[T kernel.Float] struct{ sl *slot }

func (s inPlace[T]) open(_ []byte, lo, n int) (p, g []T) {
	return piece[T](&s.sl.w, lo, lo+n), piece[T](&s.sl.g, lo, lo+n)
}

func (inPlace[T]) close() {}

type byBlock struct{ *halfPiece }

func (s byBlock) open(room []byte, lo, n int) (p, g []float32) {
	s.openWhole(room, lo, n)
	return s.x.p, s.x.g
}

// factored is one step of one parameter.
type factored[T kernel.Float] struct {
	source[T]
	state                 []tensor.Tensor
	room                  []byte
	n, block              int // elements, and those that are open at a time
	b, eps1, sign, shrink float64
	clip                  float64
	matrices, rows, cols  int
	tall                  int // rows of a block
}

// adafactor is a step. least is what stands in for an Eps1 of 0.
func adafactor[T kernel.Float](c *AdafactorConfig, sl *slot, lane []byte, src source[T], least float64) {
	spec, t := sl.par.Spec(), float64(sl.steps+1)
	f := &factored[T]{
		source: src, state: sl.state, room: lane, n: spec.Elems(), block: spec.Elems(),
		b: math.Pow(t, c.BetaDecay), eps1: c.Eps1, sign: sl.factor, shrink: 1 - c.LR*c.WeightDecay, clip: c.Clip,
	}
	if f.eps1 == 0 {
		f.eps1 = least
	}
	if c.Maximize {
		f.sign = -f.sign
	}
	if sl.wide != nil {
		f.block = min(f.block, wideBlock)
	}
	if spec.Rank() >= 2 {
		f.rows, f.cols = spec.Dim(-2), spec.Dim(-1)
		f.matrices, f.tall = f.n/(f.rows*f.cols), f.rows
		if sl.wide != nil {
			f.tall = wideRows(spec)
			f.block = f.tall * f.cols
		}
		f.room = lane[8*f.cols:]
	}
	alpha := math.Max(c.Eps2, math.Sqrt(f.squares()/float64(f.n))) * math.Min(c.LR, 1/math.Sqrt(t))
	if f.matrices == 0 {
		f.stepWhole(alpha)
		return
	}
	f.step(kernel.View[float64](lane[:8*f.cols]), alpha)
}

// squares is the parameter's sum of squares.
func (f *factored[T]) squares() (sum float64) {
	for lo := 0; lo < f.n; lo += f.block {
		p, _ := f.open(f.room, lo, min(f.block, f.n-lo))
		sum += kernel.SumSquares(p)
	}
	return sum
}

// move is by how much an update with that sum of squares is multiplied.
func (f *factored[T]) move(alpha, squares float64) float64 {
	return alpha / math.Max(1, math.Sqrt(squares/float64(f.n))/f.clip)
}

// stepWhole is the step of a parameter with one moment for each element.
func (f *factored[T]) stepWhole(alpha float64) {
	update := func(fold bool, shrink, move float64) (squares float64) {
		for lo := 0; lo < f.n; lo += f.block {
			p, g := f.open(f.room, lo, min(f.block, f.n-lo))
			v := tensor.Data[T](&f.state[0])[lo:][:len(p)]
			squares += kernel.AdafactorWhole(p, g, v, fold, f.b, f.eps1, f.sign, shrink, move)
			if move != 0 {
				f.close()
			}
		}
		return squares
	}
	squares := update(true, 1, 0)
	update(false, f.shrink, f.move(alpha, squares))
}

// step is the step of matrices. sums has room for a row.
func (f *factored[T]) step(sums []float64, alpha float64) {
	var squares float64
	for i := range f.matrices {
		f.moments(i, sums)
		squares += f.update(i, 1, 0)
	}
	move := f.move(alpha, squares)
	for i := range f.matrices {
		f.update(i, f.shrink, move)
	}
}

// moments moves the means of matrix i.
func (f *factored[T]) moments(i int, sums []float64) {
	r, c := f.means(i)
	clear(sums)
	for row := 0; row < f.rows; row += f.tall {
		r := r[row:min(row+f.tall, f.rows)]
		_, g := f.open(f.room, (i*f.rows+row)*f.cols, len(r)*f.cols)
		kernel.AdafactorRows(r, g, f.cols, f.b, f.sign, sums)
	}
	kernel.AdafactorCols(c, f.rows, f.b, sums)
}

// update gives the sum of squares of the update of matrix i, and applies it times move if that is not 0.
func (f *factored[T]) update(i int, shrink, move float64) (squares float64) {
	r, c := f.means(i)
	scale := kernel.AdafactorScale(r, f.eps1)
	for row := 0; row < f.rows; row += f.tall {
		r := r[row:min(row+f.tall, f.rows)]
		p, g := f.open(f.room, (i*f.rows+row)*f.cols, len(r)*f.cols)
		squares += kernel.AdafactorFactored(p, g, r, c, scale, f.eps1, f.sign, shrink, move)
		if move != 0 {
			f.close()
		}
	}
	return squares
}

// means are the row and column means of matrix i.
func (f *factored[T]) means(i int) (r, c []T) {
	return tensor.Data[T](&f.state[0])[i*f.rows:][:f.rows], tensor.Data[T](&f.state[1])[i*f.cols:][:f.cols]
}
