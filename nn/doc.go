// Package nn is layers, and what is done to the parameters of a whole model: walking and naming them, freezing them,
// saving and loading their values. Three models are here whole: [GPT], [Llama] and [ViT].
//
// A model is a Go struct whose exported fields are layers, other such structs, slices of them, or parameters. There is
// nothing to register and nothing to embed: [Params] and its relatives find the parameters by reflection.
//
//	type MLP struct {
//		Net  nn.Sequential
//		Head *nn.Linear
//	}
//
// # Names
//
// A parameter's name is the path of fields to it, in torch's manner: "net.0.weight", "head.bias".
//
//	field                 its name in snake case: Weight "weight", QKV "qkv", LN1 "ln1", FinalNorm "final_norm"
//	tag `nn:"name"`       that name
//	tag `nn:"-"`          skipped, and so are unexported fields
//	embedded field        none: its parameters are named as if they were the outer struct's, as Go promotes them
//	slice, array, map     the index, or the key; keys in sorted order, strings and integers only
//	[Transparent] wrapper none
//
// The order is that of fields, indices and keys, and never changes. A parameter that is reached twice (a tied one) is
// listed once, under the first name. If two parameters come by one name, the second gets "_2" behind it. Cycles are
// fine.
//
// Each walk tells the parameters their names, so that errors and memory reports have them. A path of fewer parts than the
// name that a parameter has changes nothing, so that walking a part of a model does not rename what the whole has named.
//
// # Buffers
//
// An exported field of type *tensor.Tensor is a buffer, as BatchNorm's running statistics are: part of the state that
// [StateDict] gives and [LoadStateDict] loads, named like a parameter, and nothing else: [Params], [AllParams] and
// [NumParams] pass it by. A tensor in a slice or map, in a field that is not exported, or under the tag `nn:"-"` is none.
//
// # Generation
//
// [Generate] goes on behind a prompt, a token at a time. What it is made of is there too: a model's Next takes the new
// tokens only, and finds the keys and values of those before in a [KVCache].
//
// # Scopes and lifetimes
//
// Paths of scopes mirror the names, with "/" for ".": what "net.0.weight" is used for happens in scope "net/0". A layer
// that is one op (Linear, LayerNorm, Embedding, Dropout, activations) makes nothing but its result and opens no scope:
// the op already says what it is, as in "net/0: linear[float32[4 3] float32[5 2] float32[5]]: want ...". [Sequential]
// opens one for each of its modules, by index, and frees each value between them when the next module has run. A model's
// own Forward opens one by Scope.Do, or is named by its caller through Scope.Named:
//
//	func (m *MLP) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
//		return s.Do("mlp", func(s *autograd.Scope) *autograd.Value {
//			h := m.Net.Forward(s.Named("net"), x)
//			return m.Head.Forward(s.Named("head"), h)
//		})
//	}
//
// A module never frees its input, which is its caller's, and may return that very input. So what a model itself makes and
// then passes through a long Sequential lives as long as that runs; as the result of the Sequential's first module it
// would not.
//
// # Errors
//
// Constructors check their arguments and return errors; one that fails has given back what it allocated. A wrong shape
// is reported by the op that meets it, with the scope's path. Values of parameters are loaded all or none, see
// [LoadStateDict].
package nn
