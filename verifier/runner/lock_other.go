//go:build !unix

package runner

import (
	"errors"
	"os"
)

func tryLock(*os.File) error { return errors.ErrUnsupported }
