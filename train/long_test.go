//go:build long

package train_test

func init() { stride, kills = 1, 100 }
