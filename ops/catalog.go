package ops

import "github.com/thimble-ml/thimble/autograd"

// Entry gives names to what a Rule numbers, for documentation and tools.
type Entry struct {
	Func string      // the function of this package, with what is special about the rule: "LayerNorm, weight nil"
	Op   autograd.Op // some configuration of the op; it has the rule
	In   []Input
	Out  []Output // hidden ones last
}

// Input of an op.
type Input struct {
	Name    string
	Integer bool // numbers of classes or rows, which have no gradient
}

// Output of an op.
type Output struct {
	Name string
	Size string // of a hidden output, in words; "" for those that the user gets
}

// Catalog lists every rule of the package once. A test fails if one is missing.
func Catalog() []Entry {
	x := []Input{{Name: "x"}}
	ab := []Input{{Name: "a"}, {Name: "b"}}
	affine := []Input{{Name: "x"}, {Name: "weight"}, {Name: "bias"}}
	y := []Output{{Name: "y"}}
	stats := []Output{{Name: "y"}, {"mean and rstd", "2 numbers a row"}}
	return []Entry{
		{"Linear", linearOp{}, affine, y},
		{"MatMul", matMulOp{}, ab, y},
		{"Add", addOp{}, ab, y},
		{"AddInPlace", addOp{inPlace: true}, ab, y},
		{"ReLU", reluOp{}, x, []Output{{Name: "y"}, {"mask", "1 bit an element"}}},
		{"GELU", geluOp{}, x, y},
		{"GELUTanh", geluOp{tanh: true}, x, y},
		{"LayerNorm", layerNormOp{weight: true}, affine, stats},
		{"LayerNorm, weight nil", layerNormOp{}, x, stats},
		{"CrossEntropy", crossEntropyOp{}, []Input{{Name: "logits"}, {"targets", true}}, []Output{{Name: "loss"}, {"log-sum-exp", "1 number a row"}}},
		{"Dropout", dropoutOp{}, x, y},
		{"Embedding", embeddingOp{}, []Input{{Name: "weight"}, {"index", true}}, y},
		{"Slice", sliceOp{}, x, y},
		{"Split", splitOp{}, x, y},
	}
}
