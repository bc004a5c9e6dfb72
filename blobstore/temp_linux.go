package blobstore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed opens a file that has no name and goes when it is closed.
func openUnnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	// Not every file system has it: EOPNOTSUPP; an old kernel takes the flag for
	// O_DIRECTORY: EISDIR.
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		return nil, errors.ErrUnsupported
	}
	return f, err
}

// linkUnnamed gives an unnamed file a name. The way through /proc needs no
// privilege, unlike AT_EMPTY_PATH.
func linkUnnamed(f *os.File, path string) error {
	err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	// EXDEV: the name is on another file system. ENOENT and EACCES: no usable /proc.
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return errors.ErrUnsupported
	}
	if err != nil {
		return &os.LinkError{Op: "linkat", Old: "unnamed file", New: path, Err: err}
	}
	return nil
}

func isCrossDevice(err error) bool { return errors.Is(err, unix.EXDEV) }
