//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package row

func residentSet() (now, high int64, known bool) { return 0, 0, false }

func resetHigh() bool { return false }

func faultIn() {}
