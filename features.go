package thimble

import (
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// FeatureSet says what the kernels of this process run on.
type FeatureSet struct {
	Arch   string   // processor architecture: "amd64"
	Kernel string   // kernel family: "go" is plain Go. Bits are promised within a family
	Used   []string // processor features that the family uses beyond the architecture's base level
	CPU    []string // processor features found that matter to kernels
}

// Features gives the kernel family and the processor features in use. Saved training state carries the family, since
// results are equal to the bit only within one.
func Features() FeatureSet {
	return FeatureSet{Arch: kernel.Arch, Kernel: kernel.Family, Used: kernel.UsedFeatures(), CPU: kernel.CPUFeatures()}
}

// String is one line for logs and bug reports.
func (f FeatureSet) String() string {
	uses := "no processor features beyond the base level"
	if len(f.Used) > 0 {
		uses = strings.Join(f.Used, " ")
	}
	return fmt.Sprintf("%s, kernels: %s (using %s; processor has: %s)", f.Arch, f.Kernel, uses, strings.Join(f.CPU, " "))
}
