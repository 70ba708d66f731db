package nn

import (
	"errors"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// ConvNetConfig of NewConvNet. The sizes but Channels are required.
type ConvNetConfig struct {
	Height, Width, Classes int // Height and Width 4 or more
	Channels               int // of the images; 0: 1
	DType                  tensor.DType
}

// NewConvNet makes a small convolutional network for images [N channels H W], in the manner of LeNet (LeCun et al., 1998):
// two 3 x 3 convolutions to 16 and 32 channels, each with ReLU and 2 x 2 max pooling, then linear layers of 128 and
// classes. It gives logits [N classes].
func NewConvNet(sess *autograd.Session, cfg ConvNetConfig) (Sequential, error) {
	if cfg.Channels == 0 {
		cfg.Channels = 1
	}
	k := newMaker("NewConvNet", sess)
	k.positive("channels", cfg.Channels)
	k.positive("classes", cfg.Classes)
	if cfg.Height < 4 || cfg.Width < 4 {
		k.failf("images of %d x %d: want 4 x 4 or more, since they are pooled twice", cfg.Height, cfg.Width)
	}
	if err := k.end(); err != nil {
		return nil, err
	}
	conv := Conv2DConfig{Padding: 1, DType: cfg.DType}
	linear := LinearConfig{DType: cfg.DType}
	conv1, err1 := NewConv2D(sess, cfg.Channels, 16, 3, conv)
	conv2, err2 := NewConv2D(sess, 16, 32, 3, conv)
	fc1, err3 := NewLinear(sess, 32*(cfg.Height/4)*(cfg.Width/4), 128, linear)
	fc2, err4 := NewLinear(sess, 128, cfg.Classes, linear)
	net := Sequential{
		conv1, ReLU{InPlace: true}, MaxPool2D{Size: 2},
		conv2, ReLU{InPlace: true}, MaxPool2D{Size: 2},
		Flatten{}, fc1, ReLU{InPlace: true}, fc2,
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		for _, p := range AllParams(net) {
			p.Release()
		}
		return nil, err
	}
	return net, nil
}
