package kernel_test

import (
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestBatchNorm(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.BatchNorm(t, kernel.BatchNormPart[float32], kernel.BatchNormFinish[float32], kernel.BatchNormApply[float32])
	})
	kerneltest.BatchNorm(t, kernel.BatchNormPart[float64], kernel.BatchNormFinish[float64], kernel.BatchNormApply[float64])
	eachFamily(t, func(t *testing.T) {
		kerneltest.BatchNormMoments(t, kernel.BatchNormPart[float32], kernel.BatchNormFinish[float32])
	})
	kerneltest.BatchNormMoments(t, kernel.BatchNormPart[float64], kernel.BatchNormFinish[float64])
	eachFamily(t, func(t *testing.T) {
		kerneltest.Running(t, kernel.Running[float32], kernel.BatchNormGiven[float32])
	})
	kerneltest.Running(t, kernel.Running[float64], kernel.BatchNormGiven[float64])
}

func TestChannelSums(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.ChannelSums(t, kernel.ChannelSumsPart[float32])
	})
	kerneltest.ChannelSums(t, kernel.ChannelSumsPart[float64])
}

func TestBatchNormBackward(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.BatchNormBackward(t, kernel.BatchNormFactors[float32], kernel.BatchNormBackward[float32], kernel.BatchNormGivenBackward[float32])
	})
	kerneltest.BatchNormBackward(t, kernel.BatchNormFactors[float64], kernel.BatchNormBackward[float64], kernel.BatchNormGivenBackward[float64])
}

func TestGroupNorm(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.GroupNorm(t, kernel.GroupNormForward[float32], kernel.GroupNormBackward[float32])
	})
	kerneltest.GroupNorm(t, kernel.GroupNormForward[float64], kernel.GroupNormBackward[float64])
}
