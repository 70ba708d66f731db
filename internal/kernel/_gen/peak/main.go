// Command peak writes the loop that benchmarks measure the processor's float32 peak with. From this folder:
//
//	go run main.go -out ../../kerneltest/peak_amd64.s
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/thimble-ml/thimble/internal/kernel/_gen/avx"
)

func main() {
	ConstraintExpr("amd64,!purego")
	avx.Start("multiplyAdds", "(n int)")
	n := avx.Int("n")
	sums := avx.Zeroed(12) // as many as two units with a latency of up to six cycles want
	x, y := avx.Zeroed(1)[0], avx.Zeroed(1)[0]
	Label("loop")
	for _, s := range sums {
		VFMADD231PS(x, y, s)
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	avx.Done()
	Generate()
}
