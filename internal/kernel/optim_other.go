//go:build !amd64 || purego

package kernel

func adamFast[T Float]([]T, []T, []T, []T, []T, [9]T, T) bool { return false }

func sgdFast[T Float]([]T, []T, [3]T) bool { return false }

func sgdMomentumFast[T Float]([]T, []T, []T, [5]T, bool) bool { return false }

func adagradFast[T Float]([]T, []T, []T, [4]T) bool { return false }

func lionFast[T Float]([]T, []T, []T, [7]T) bool { return false }

func rmspropFast[T Float]([]T, []T, []T, []T, []T, [7]T) bool { return false }
