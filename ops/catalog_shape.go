package ops

// shapeEntries are the ops that only move elements: views, joins, paddings, gathers.
func shapeEntries() []Entry {
	x := []EntryIn{{Name: "x"}}
	xs := []EntryIn{{Name: "xs"}}
	indexed := []EntryIn{{Name: "x"}, {"index", true}}
	y := []EntryOut{{Name: "y"}}
	return []Entry{
		{"Select", selectOp{}, x, y},
		{"Unbind", unbindOp{}, x, y},
		{"Reshape", reshapeOp{kind: toShape}, x, y},
		{"Flatten", reshapeOp{kind: flat}, x, y},
		{"Squeeze", reshapeOp{kind: squeezed}, x, y},
		{"Unsqueeze", reshapeOp{kind: unsqueezed}, x, y},
		{"Contiguous", reshapeOp{kind: contiguous}, x, y},
		{"Permute", permuteOp{}, x, y},
		{"Transpose", transposeOp{}, x, y},
		{"Expand", expandOp{}, x, y},
		{"Cat", catOp{}, xs, y},
		{"Stack", stackOp{}, xs, y},
		{"Pad", padOp{}, x, y},
		{"Repeat", repeatOp{}, x, y},
		{"Tril", triangleOp{}, x, y},
		{"Triu", triangleOp{upper: true}, x, y},
		{"Gather", gatherOp{}, indexed, y},
		{"IndexSelect", gatherOp{whole: true}, indexed, y},
	}
}
