//go:build long

package kernel_test

func init() { ulpStride = 37 }
