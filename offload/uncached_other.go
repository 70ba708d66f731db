//go:build !unix

package offload

import "os"

// createUncached makes an ordinary file: this system's cache is its own affair.
func createUncached(path string) (File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}
