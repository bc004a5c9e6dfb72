//go:build !linux

package blobstore

import (
	"errors"
	"os"
	"syscall"
)

func openUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkUnnamed(*os.File, string) error { return errors.ErrUnsupported }

func isCrossDevice(err error) bool { return errors.Is(err, syscall.EXDEV) }
