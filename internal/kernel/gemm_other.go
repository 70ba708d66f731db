//go:build !amd64 || purego

package kernel

func computeFast[T Float](*GEMM[T], gemmBlock, []byte) bool { return false }

func packRowsFast[T Float](*GEMM[T], []T, int, gemmPanels, int, int, int, int) bool { return false }

func packColsFast[T Float](*GEMM[T], []T, int, int, int, int) bool { return false }

func multiplyFast[T Float](*GEMM[T], *gemmTask[T]) bool { return false }

func dotsFast[T Float]([]T, []T, []T, int) bool { return false }

func addRowsFast[T Float]([]T, []T, []T, int) bool { return false }
