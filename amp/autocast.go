package amp

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// The policies for autograd.Scope.WithAutocast. Off switches a policy of an outer scope off again.
var (
	BFloat16 = autograd.CastPolicy{Low: tensor.BFloat16}
	Float16  = autograd.CastPolicy{Low: tensor.Float16}
	Off      = autograd.CastPolicy{}
)
