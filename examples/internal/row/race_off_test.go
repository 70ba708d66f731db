//go:build !race

package row

const raceEnabled = false
