//go:build !amd64 || purego

package kernel

func f16ToF32Fast([]float32, []uint16) int { return 0 }

func f32ToF16Fast([]uint16, []float32) int { return 0 }

func bf16ToF32Fast([]float32, []uint16) int { return 0 }

func f32ToBF16Fast([]uint16, []float32) int { return 0 }

func convertFast[D Float, S Number | uint8]([]D, bool, []S) bool { return false }

func (h Half) stochasticFast([]uint16, []float32, []uint32) int { return 0 }
