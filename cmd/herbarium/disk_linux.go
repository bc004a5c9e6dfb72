package main

import "syscall"

// freeBytes is the room of the file system of a path, for whoever asks.
func freeBytes(path string) (free uint64, known bool, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, false, err
	}
	return fs.Bavail * uint64(fs.Bsize), true, nil //nolint:gosec // a block size is not negative
}

// sameFileSystem says whether a file can be moved from one folder to the other.
func sameFileSystem(a, b string) (bool, error) {
	var first, second syscall.Stat_t
	if err := syscall.Stat(a, &first); err != nil {
		return false, err
	}
	if err := syscall.Stat(b, &second); err != nil {
		return false, err
	}
	return first.Dev == second.Dev, nil
}
