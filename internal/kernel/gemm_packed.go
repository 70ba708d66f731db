package kernel

import "fmt"

// op(A) packed beforehand, for several products that share it.

// GEMMPackedBytes is the room for all of op(A), packed.
func GEMMPackedBytes(m, k, elemSize int) int64 {
	return roundUp64(int64(rowPanels(m).room()) * int64(k) * int64(elemSize))
}

// GEMMPackedChunks is how many chunks pack op(A).
func GEMMPackedChunks(m, k int) int { return packedChunks(m, k, gemmDepth(k)) }

func packedChunks(m, k, depth int) int { return ceilDiv(k, depth) * ceilDiv(m, packedRowsOf) }

// PackRows packs one chunk of op(A) into g.Packed, for [Staging.Packed].
func (g *GEMM[T]) PackRows(chunk int) {
	g.checkPacked()
	checkMatrix("A", len(g.A), g.LDA, g.M, g.K, g.TransA)
	if n := GEMMPackedChunks(g.M, g.K); chunk < 0 || chunk >= n {
		panic(fmt.Sprintf("kernel: GEMM: chunk %d of %d that pack A", chunk, n))
	}
	g.packRowsDeep(g.Packed, 0, g.K, chunk)
}

// packRowsDeep packs a chunk of what lies in k0 to k1 of all rows: block of K after block, of each all panels.
func (g *GEMM[T]) packRowsDeep(to []T, k0, k1, chunk int) {
	down, kb := ceilDiv(g.M, packedRowsOf), gemmDepth(g.K)
	k := k0 + chunk/down*kb
	room, depth := rowPanels(g.M).room(), min(kb, k1-k)
	g.packRowsOf(to[room*(k-k0):][:room*depth], gemmBlock{rows: g.M}, k, depth, chunk%down)
}

// packedBlock is one block of K of g.Packed.
func (g *GEMM[T]) packedBlock(k, depth int) []T {
	g.checkPacked()
	room := rowPanels(g.M).room()
	return g.Packed[room*k:][:room*depth]
}

func (g *GEMM[T]) checkPacked() {
	if n := rowPanels(g.M).room() * g.K; len(g.Packed) < n {
		panic(fmt.Sprintf("kernel: GEMM: Packed has %d elements, want %d", len(g.Packed), n))
	}
}
