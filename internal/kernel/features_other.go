//go:build !amd64 || purego

package kernel

const useAVX2, hasF16C = false, false
