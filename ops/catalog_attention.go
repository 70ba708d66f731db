package ops

// attentionEntries are attention, RMS norm and rotary embedding.
func attentionEntries() []Entry {
	qkv := []EntryIn{{Name: "q"}, {Name: "k"}, {Name: "v"}}
	out := []EntryOut{{Name: "out"}, {"log-sum-exp", "1 number a query and head"}}
	rstd := []EntryOut{{Name: "y"}, {"rstd", "1 number a row"}}
	return []Entry{
		{"Attention", attentionOp{}, qkv, out},
		{"Attention, with a mask", attentionOp{mask: true}, append(qkv, EntryIn{Name: "mask"}), out},
		{"RMSNorm", rmsNormOp{weight: true}, []EntryIn{{Name: "x"}, {Name: "weight"}}, rstd},
		{"RMSNorm, weight nil", rmsNormOp{}, []EntryIn{{Name: "x"}}, rstd},
		{"RoPE", ropeOp{}, []EntryIn{{Name: "x"}}, []EntryOut{{Name: "y"}}},
	}
}
