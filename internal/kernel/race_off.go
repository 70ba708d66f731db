//go:build !race

package kernel

// raceEnabled says that the race detector runs. It does not see into assembly.
const raceEnabled = false
