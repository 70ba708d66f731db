//go:build !long

package offload_test

// rounds of two steps each; build tag long has more.
const rounds = 2
