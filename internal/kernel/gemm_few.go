package kernel

// A large product of few rows, in stages. What a chunk packs of B no other chunk wants: it has some columns and all rows, and
// packs its columns in its lane's scratch, one block of K after the other. So workers wait less for each other, and while one
// reads B another multiplies. A is packed for all lanes, several blocks of K at a time: one stage packs, the next multiplies.

const (
	fewCols = 96      // most columns of a chunk
	fewRoom = 1 << 17 // most elements of A that are packed at a time, if that is more than one block of K
)

// fewRows is a product that is cut so.
type fewRows struct {
	m, n, k     int
	depth, deep int // of a block of K; of the blocks that are packed at a time
	cols        int // of a chunk
}

func fewRowsOf(m, n, k int) fewRows {
	f := fewRows{m: m, n: n, k: k, depth: gemmDepth(k)}
	f.cols = even(n, min(fewCols, roundUp(ceilDiv(n, gemmWantChunks), gemmCols)), gemmCols)
	f.deep = f.depth * max(1, fewRoom/(rowPanels(m).room()*f.depth))
	return f
}

func (f *fewRows) stages() int { return 2 * ceilDiv(f.k, f.deep) }

// at is what a stage does, and to which part of K.
func (f *fewRows) at(stage int) (k0, k1 int, multiply bool) {
	k0 = stage / 2 * f.deep
	return k0, min(f.k, k0+f.deep), stage%2 != 0
}

func (f *fewRows) chunks(stage int) int {
	k0, k1, multiply := f.at(stage)
	if multiply {
		return ceilDiv(f.n, f.cols)
	}
	return packedChunks(f.m, k1-k0, f.depth)
}

// room is how many elements of A are packed at a time.
func (f *fewRows) room() int { return rowPanels(f.m).room() * min(f.k, f.deep) }

// stageFewRows computes one chunk of a stage.
func (g *GEMM[T]) stageFewRows(f fewRows, a, b []T, stage, chunk int) {
	k0, k1, multiply := f.at(stage)
	if !multiply {
		g.packRowsDeep(a, k0, k1, chunk)
		return
	}
	j := chunk * f.cols
	panels, cols := rowPanels(g.M), min(f.cols, g.N-j)
	tall := even(panels.count, stageTileRows/gemmRows, 1)
	for k := k0; k < k1; k += f.depth {
		depth := min(f.depth, k1-k)
		g.packCols(b, j, cols, k, depth)
		task := gemmTask[T]{a: a[panels.room()*(k-k0):], b: b, depth: depth, first: k == 0, panels: panels, j: j, cols: cols}
		for task.p1 < panels.count {
			task.p0, task.p1 = task.p1, min(panels.count, task.p1+tall)
			g.multiply(&task)
		}
	}
	if k1 == g.K {
		g.finish(gemmBlock{0, j, g.M, cols})
	}
}

// A large product of more rows, whose terms are one block of K, is the same the other way round: a chunk has some rows of A,
// which no other wants, and all columns of a block of B, which is packed for all lanes.

const fewTermRows = 96 // most rows of a chunk

// fewTerms is a product that is cut so.
type fewTerms struct {
	m, n       int
	rows, cols int // of a chunk; of a block of B
}

func fewTermsOf(m, n int) fewTerms {
	rows := min(fewTermRows, roundUp(ceilDiv(m, gemmWantChunks), gemmRows))
	return fewTerms{m: m, n: n, rows: even(m, rows, gemmRows), cols: even(n, stageCols, gemmCols)}
}

func (f *fewTerms) stages() int { return 2 * ceilDiv(f.n, f.cols) }

// at is what a stage does, and to which columns.
func (f *fewTerms) at(stage int) (j, cols int, multiply bool) {
	j = stage / 2 * f.cols
	return j, min(f.cols, f.n-j), stage%2 != 0
}

func (f *fewTerms) chunks(stage int) int {
	_, cols, multiply := f.at(stage)
	if multiply {
		return ceilDiv(f.m, f.rows)
	}
	return ceilDiv(cols, packedColsOf)
}

// stageFewTerms computes one chunk of a stage.
func (g *GEMM[T]) stageFewTerms(f fewTerms, a, b []T, stage, chunk int) {
	j, cols, multiply := f.at(stage)
	if !multiply {
		at := chunk * packedColsOf
		g.packCols(b[at*g.K:], j+at, min(packedColsOf, cols-at), 0, g.K)
		return
	}
	t := gemmBlock{i: chunk * f.rows, j: j, cols: cols}
	t.rows = min(f.rows, g.M-t.i)
	panels := rowPanels(t.rows)
	g.packRows(a, t.i, panels, 0, panels.count, 0, g.K)
	g.multiply(&gemmTask[T]{a: a, b: b, depth: g.K, first: true, panels: panels, p1: panels.count, i: t.i, j: j, cols: cols})
	g.finish(t)
}
