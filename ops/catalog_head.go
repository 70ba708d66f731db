package ops

// headEntries are the forms of linear_cross_entropy.
func headEntries() []Entry {
	in := func(more ...EntryIn) []EntryIn {
		return append([]EntryIn{{Name: "x"}, {Name: "weight"}, {"targets", true}}, more...)
	}
	bias, classWeights := EntryIn{Name: "bias"}, EntryIn{"class weights", true}
	apart := []EntryOut{{Name: "loss"}, {"log-sum-exp", "1 number a row"}}
	return []Entry{
		{"LinearCrossEntropy", headOp{}, in(), apart},
		{"LinearCrossEntropy, with bias", headOp{bias: true}, in(bias), apart},
		{"LinearCrossEntropy, with weights", headOp{loss: crossEntropyOp{weighted: true}}, in(classWeights), apart},
		{"LinearCrossEntropy, with bias and weights", headOp{bias: true, loss: crossEntropyOp{weighted: true}}, in(bias, classWeights), apart},
		{"LinearCrossEntropy, in one sweep", headOp{sweep: true}, in(bias), []EntryOut{{Name: "loss"},
			{"gradient of x", "as much as x"}, {"gradient of weight", "as much as weight, which becomes its gradient"},
			{"gradient of bias", "as much as bias"}}},
	}
}
