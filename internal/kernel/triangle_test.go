package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestTriangle(t *testing.T) {
	kerneltest.Triangle(t, kernel.KeepTriangle[float32], kernel.AddTriangle[float32])
	kerneltest.Triangle(t, kernel.KeepTriangle[float64], kernel.AddTriangle[float64])
}
