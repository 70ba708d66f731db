//go:build long

package offload_test

// The long form: 20 steps.
const rounds = 10
