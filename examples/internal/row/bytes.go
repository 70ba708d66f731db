package row

import "fmt"

// Bytes returns a number of bytes in the unit in which people think of it: bytes, KiB with one digit after the point,
// MiB with two, and from 10 GiB on GiB with two.
func Bytes(n int64) string {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	switch size := max(n, -n); {
	case size < kib:
		return fmt.Sprintf("%d B", n)
	case size < mib:
		return fmt.Sprintf("%.1f KiB", float64(n)/kib)
	case size < 10*gib:
		return fmt.Sprintf("%.2f MiB", float64(n)/mib)
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/gib)
}

// maybe returns the bytes, or "-" where the figure is missing.
func maybe(n *int64) string {
	if n == nil {
		return "-"
	}
	return Bytes(*n)
}
