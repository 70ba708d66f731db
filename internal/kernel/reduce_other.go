//go:build !amd64 || purego

package kernel

func sumFast[T any]([]T) (float64, bool) { return 0, false }

func absFast[T Float]([]T) (float64, bool) { return 0, false }

func squaresFast[T Float]([]T, float64) (float64, bool) { return 0, false }

func largestFast[T Float]([]T, float64) (float64, bool) { return 0, false }

func largestAbsFast[T Float]([]T) (float64, bool) { return 0, false }

func finiteFast[T Float]([]T) (finite, ok bool) { return false, false }

func addDownFast[T summand, A accumulator]([]A, []T, int, int) bool { return false }
