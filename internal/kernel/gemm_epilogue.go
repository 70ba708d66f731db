package kernel

import "fmt"

// Epilogue is what a product makes of each element of C when all of K has been added up in it: a tile at a time, while the
// tile is in the cache. With is a matrix of C's shape that two of them read.
//
// The routines are those of the passes over whole tensors, so the bits are those of a product and a pass after it.
type Epilogue uint8

// The epilogues.
const (
	EpilogueNone     Epilogue = iota
	EpilogueAdd               // C + With: a residual connection
	EpilogueReLU              // max(C, 0)
	EpilogueGELU              // C cdf(C)
	EpilogueGELUTanh          // its tanh form
	EpilogueSiLU              // C sigmoid(C)
	EpilogueSwiGLU            // silu(With) C
)

// reads tells whether e has a second operand.
func (e Epilogue) reads() bool { return e == EpilogueAdd || e == EpilogueSwiGLU }

// applyEpilogue does what e says to c, where it lies.
func applyEpilogue[T Float](e Epilogue, c, with []T) {
	switch e {
	case EpilogueAdd:
		addRow(c, c, with)
	case EpilogueReLU:
		ReLU(c, c, nil)
	case EpilogueGELU:
		GELU(c, c)
	case EpilogueGELUTanh:
		GELUTanh(c, c)
	case EpilogueSiLU:
		mapRow(UnarySiLU, 0, c, c)
	case EpilogueSwiGLU:
		swigluRow(c, with, c)
	default:
		panic(fmt.Sprintf("kernel: GEMM: no epilogue %d", e))
	}
}

// finish applies the epilogue to a tile of C that has been added up.
func (g *GEMM[T]) finish(t gemmBlock) {
	if g.Epilogue == EpilogueNone {
		return
	}
	rows, cols := t.rows, t.cols
	if cols == g.LDC && (cols == g.LDW || !g.Epilogue.reads()) { // one after the other
		rows, cols = min(rows, 1), rows*cols
	}
	for i := t.i; i < t.i+rows; i++ {
		var with []T
		if g.Epilogue.reads() {
			with = g.With[i*g.LDW+t.j:][:cols]
		}
		applyEpilogue(g.Epilogue, g.C[i*g.LDC+t.j:][:cols], with)
	}
}

// checkEpilogue panics unless With is as large as the sizes say.
func (g *GEMM[T]) checkEpilogue() {
	if g.Epilogue.reads() {
		checkMatrix("With", len(g.With), g.LDW, g.M, g.N, false)
	}
}

// finish is GEMM's for a tile of C that lies in c. Where C is of a half type every step is rounded to it, as it would be on
// its way through memory.
func (g *MixedGEMM) finish(c []float32, ld int, t gemmBlock) {
	if g.Epilogue == EpilogueNone {
		return
	}
	var room [stageTileCols]float32
	for i := range t.rows {
		row := c[i*ld:][:t.cols]
		var with []float32
		if g.Epilogue.reads() {
			with = g.With.row(room[:], (t.i+i)*g.With.LD+t.j, t.cols)
		}
		if g.C.Bits != nil {
			g.C.Half.quantize(row, row)
		}
		applyEpilogue(g.Epilogue, row, with)
	}
}
