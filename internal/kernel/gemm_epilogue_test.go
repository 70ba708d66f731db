package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestEpilogues(t *testing.T) { eachFamily(t, kerneltest.Epilogues) }
