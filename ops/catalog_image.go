package ops

// imageEntries are convolution, pools, batch norm and group norm.
func imageEntries() []Entry {
	x := []EntryIn{{Name: "x"}}
	affine := []EntryIn{{Name: "x"}, {Name: "weight"}, {Name: "bias"}}
	given := []EntryIn{{Name: "x"}, {Name: "mean"}, {Name: "variance"}, {Name: "weight"}, {Name: "bias"}}
	y := []EntryOut{{Name: "y"}}
	batch := []EntryOut{{Name: "y"}, {Name: "mean"}, {Name: "variance"}, {"mean and rstd", "2 numbers a channel"}}
	groups := []EntryOut{{Name: "y"}, {"mean and rstd", "2 numbers a group and image"}}
	return []Entry{
		{"Conv2D", conv2DOp{}, affine, y},
		{"MaxPool2D", maxPool2DOp{}, x, []EntryOut{{Name: "y"}, {"winners", "2 bits an output for 2 x 2, 4 bits up to 16 elements, 8 up to 256"}}},
		{"AvgPool2D", avgPool2DOp{}, x, y},
		{"AdaptiveAvgPool2D", avgPool2DOp{adaptive: true}, x, y},
		{"BatchNorm", batchNormOp{weight: true}, affine, batch},
		{"BatchNorm, weight nil", batchNormOp{}, x, batch},
		{"BatchNormEval", batchNormEvalOp{weight: true}, given, y},
		{"BatchNormEval, weight nil", batchNormEvalOp{}, given[:3], y},
		{"GroupNorm", groupNormOp{weight: true}, affine, groups},
		{"GroupNorm, weight nil", groupNormOp{}, x, groups},
	}
}
