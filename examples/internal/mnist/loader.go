package mnist

import (
	"context"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// Part returns n images from the at-th on.
func Part(im *data.Images, at, n int) *data.Images {
	some, size := *im, im.H*im.W
	some.N, some.X, some.Y = n, im.X[at*size:(at+n)*size], im.Y[at:at+n]
	return &some
}

// Loader makes batches of images, [B 1 H W] or in another shape, and of their labels, [B].
func Loader(dev *memory.Device, im *data.Images, norm data.Norm, cfg data.LoaderConfig, shape ...int) (*data.Loader, error) {
	ds, err := im.Dataset(norm, shape...)
	if err != nil {
		return nil, err
	}
	return data.NewLoader(dev, ds, cfg)
}

// Accuracy returns the share of a loader's images whose class has the highest of the logits that forward gives, in float32.
func Accuracy(ctx context.Context, sess *autograd.Session, tests *data.Loader, forward nn.Forward) (float64, error) {
	right, seen := 0, 0
	for batch, err := range tests.Epoch(ctx, 0) {
		if err != nil {
			return 0, err
		}
		err := sess.Step(ctx, func(s *autograd.Scope) error {
			logits := forward(s.NoGrad().Eval(), s.Input(batch.X)).Tensor()
			classes, values := logits.Shape()[1], tensor.Data[float32](logits)
			for i, label := range tensor.Data[int64](batch.Y) {
				if z := values[i*classes:][:classes]; z[label] == slices.Max(z) {
					right++
				}
				seen++
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return float64(right) / float64(seen), nil
}
