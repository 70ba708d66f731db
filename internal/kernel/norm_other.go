//go:build !amd64 || purego

package kernel

func affineFast[T Float](_, _, _, _ []T, _, _ T) bool { return false }

func affineAllFast[T Float](_, _ []T, _, _, _, _ T) bool { return false }

func productsFast[T Float](_, _, _ []T, _, _ T) (gw, gwx float64, ok bool) { return 0, 0, false }

func normBackwardFast[T Float](_ []T, _ bool, _, _, _ []T, _, _, _, _ T) bool { return false }

func combineFast[T Float](_ []T, _ bool, _, _ []T, _, _, _, _ T) bool { return false }

func affineRowsFast[T Float](_, _ []float64, _, _, _ []T, _, _ int) bool { return false }

func scaledRowsFast[T Float](_ []float64, _, _, _ []T, _, _ int) bool { return false }

func affineEachFast[T Float](_, _, _, _, _ []T) bool { return false }

func combineEachFast[T Float](_ []T, _ bool, _, _, _, _ []T, _ int) bool { return false }

func productsDownFast[T Float](_ []float64, _, _, _ []T) bool { return false }
