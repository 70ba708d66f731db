//go:build unix && !linux && !darwin

package offload

const directFlag = 0

// These systems have no common way to keep a file out of the cache.
func noCache(int) {}

func flushPages(int, int64, int64) error { return nil }

func dropPages(int, int64, int64) {}
