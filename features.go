package thimble

import (
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// FeatureSet says what the kernels of this process run on.
type FeatureSet struct {
	Arch   string   // processor architecture: "amd64"
	Kernel string   // kernel family: "go" is plain Go, "avx2" assembly for AVX2 and FMA. Bits are promised within a family
	Used   []string // processor features that the family uses beyond the architecture's base level
	CPU    []string // processor features found that matter to kernels
}

// Features gives the kernel family and the processor features in use. Saved training state carries the family, since
// results are equal to the bit only within one.
func Features() FeatureSet {
	return FeatureSet{Arch: kernel.Arch, Kernel: kernel.Family(), Used: kernel.UsedFeatures(), CPU: kernel.CPUFeatures()}
}

// String is one line for logs and bug reports: "amd64, avx2 kernels using avx2 fma (processor has avx2 fma)".
func (f FeatureSet) String() string {
	s := fmt.Sprintf("%s, %s kernels", f.Arch, f.Kernel)
	if len(f.Used) > 0 {
		s += " using " + strings.Join(f.Used, " ")
	}
	if len(f.CPU) > 0 {
		s += " (processor has " + strings.Join(f.CPU, " ") + ")"
	}
	return s
}
