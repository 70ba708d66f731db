package tensor

import (
	"math"
	"strconv"
	"strings"
)

// precision is the most digits that are printed behind the point, torch's default.
const precision = 4

// floatFormat is how a set of floats is written, so that they stand one below the other: NumPy's FloatingFormat in its
// mode "maxprec".
type floatFormat struct {
	dtype       DType
	exponent    bool // write 1.5e+03
	left, right int  // characters before and behind the point
	digits      int  // with an exponent: digits behind the point
	places      int  // with an exponent: its digits
}

// newFloatFormat finds the format of n values.
func newFloatFormat(dt DType, n int, value func(i int) float64) *floatFormat {
	f := &floatFormat{dtype: dt}
	least, most := math.Inf(1), 0.0
	for i := range n {
		if v := math.Abs(value(i)); v > 0 && v <= math.MaxFloat64 {
			least, most = min(least, v), max(most, v)
		}
	}
	f.exponent = most > 0 && (most >= 1e8 || least < 1e-4 || most/least > 1000)
	for i := range n {
		if v := value(i); finite(v) {
			whole, frac, exp := f.split(v)
			f.left = max(f.left, len(whole))
			f.digits = max(f.digits, len(frac))
			f.places = max(f.places, len(exp)-1)
		}
	}
	f.right = f.digits
	if f.exponent {
		f.right += f.places + 2 // e and its sign
	}
	for i := range n {
		if v := value(i); !finite(v) {
			f.left = max(f.left, len(special(v))-f.right-1)
		}
	}
	return f
}

func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// split is the digits of v: before the point, behind it, and the exponent with its sign, if it is written.
func (f *floatFormat) split(v float64) (whole, frac, exp string) {
	verb := byte('f')
	if f.exponent {
		verb = 'e'
	}
	whole, frac, exp = cut(appendShortest(nil, v, verb, f.dtype))
	if len(frac) > precision {
		whole, frac, exp = cut(strconv.AppendFloat(nil, v, verb, precision, 64))
		frac = strings.TrimRight(frac, "0")
	}
	return whole, frac, exp
}

func cut(number []byte) (whole, frac, exp string) {
	s, exp, _ := strings.Cut(string(number), "e")
	whole, frac, _ = strings.Cut(s, ".")
	return whole, frac, exp
}

// text is v as the format has it.
func (f *floatFormat) text(v float64) string {
	if !finite(v) {
		s := special(v)
		return strings.Repeat(" ", f.left+1+f.right-len(s)) + s
	}
	whole, frac, exp := f.split(v)
	if f.exponent {
		whole, frac, exp = cut(strconv.AppendFloat(nil, v, 'e', f.digits, 64))
		exp = "e" + exp[:1] + strings.Repeat("0", f.places+1-len(exp)) + exp[1:]
	} else {
		frac += strings.Repeat(" ", f.right-len(frac))
	}
	return strings.Repeat(" ", f.left-len(whole)) + whole + "." + frac + exp
}

// special is the name of what is not finite.
func special(v float64) string { return strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+") }

// appendShortest appends v, an element of a dt, with the fewest digits that tell it from every other. format is one of
// strconv's; with 'f', all digits of a half before the point count, or 65504 would be 65500.
func appendShortest(dst []byte, v float64, format byte, dt DType) []byte {
	switch {
	case dt == Float32:
		return strconv.AppendFloat(dst, v, format, -1, 32)
	case dt == Float64 || !finite(v):
		return strconv.AppendFloat(dst, v, format, -1, 64)
	}
	digits := 0 // behind the first
	if format == 'f' {
		digits = len(strconv.FormatFloat(math.Abs(v), 'f', 0, 64)) - 1
	}
	for want := toHalf(dt, v); ; digits++ { // no half takes more than 4
		short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits, 64), 64)
		if err == nil && toHalf(dt, short) == want {
			return strconv.AppendFloat(dst, short, format, -1, 64)
		}
	}
}
