package main

import (
	"errors"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
)

// network is two convolutions, each with ReLU and pooling, and two linear layers.
func network(sess *autograd.Session, h, w, classes int) (nn.Sequential, error) {
	conv1, err1 := nn.NewConv2D(sess, 1, 16, 3, nn.Conv2DConfig{Padding: 1})
	conv2, err2 := nn.NewConv2D(sess, 16, 32, 3, nn.Conv2DConfig{Padding: 1})
	fc1, err3 := nn.NewLinear(sess, 32*(h/4)*(w/4), 128)
	fc2, err4 := nn.NewLinear(sess, 128, classes)
	return nn.Sequential{
		conv1, nn.ReLU{}, nn.MaxPool2D{Size: 2},
		conv2, nn.ReLU{}, nn.MaxPool2D{Size: 2},
		nn.Flatten{}, fc1, nn.ReLU{}, fc2,
	}, errors.Join(err1, err2, err3, err4)
}
