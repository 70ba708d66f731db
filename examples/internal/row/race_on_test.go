//go:build race

package row

const raceEnabled = true
