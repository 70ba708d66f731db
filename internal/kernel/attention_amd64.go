//go:build amd64 && !purego

package kernel

//go:generate go -C _gen run ./attention -out ../attention_amd64.s

// A panel of attention: pairs of n keys and sixteen queries, a row for each key.

// attentionSoftmax turns the scores p[n 16], in units of ln 2, into weights relative to each query's largest score so far,
// top. It raises top, adds to sum, and puts into factor what is summed already must be multiplied by; bit i of changed
// says that this is not 1 for query i. NaN becomes a weight but no top. n is at least 1.
//
//go:noescape
func attentionSoftmax(n int, p, top, sum, factor *float32) (changed int)

// attentionWeights turns scores into weights, given the log-sum-exp of each query, and says whether any is not finite. n is
// at least 1.
//
//go:noescape
func attentionWeights(n int, p, lse *float32) (spoiled int)

// attentionGrads sets ds[n 16] to p (ds - delta), and says whether any of it is not finite. n is at least 1.
//
//go:noescape
func attentionGrads(n int, ds, p, delta *float32) (spoiled int)

// attentionScaleRows multiplies each row of x[rows n] by its factor. n is a multiple of 8, not 0.
//
//go:noescape
func attentionScaleRows(rows int, x *float32, n int, factor *float32)

// attentionPut sets rows of dst, n elements each, to factor times those of src, or adds it. The mask is for what n leaves
// over of 8. rows is at least 1.
//
//go:noescape
func attentionPut(rows int, dst *float32, ldd int, src *float32, lds, n int, factor float32, mask *int32, add bool)

// attentionDot is the sum of x y, added up in float64. The mask is for what n leaves over of 8.
//
//go:noescape
func attentionDot(x, y *float32, n int, mask *int32) float64
