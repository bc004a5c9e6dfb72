package blobstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// tempPrefix starts with a dot, so that no object key can name a temporary
	// file (CheckKey) and no listing shows one.
	tempPrefix = ".tmp-"
	// tempAge is how long nobody has written to a temporary file that a crash
	// left. Another process may be using the directory: its files are younger.
	tempAge = time.Hour
)

// tempFile is a file that becomes visible under its final name only when it is
// complete. Where the system can, it has no name until then (O_TMPFILE), so that
// not even a crash leaves it behind; elsewhere its name starts with tempPrefix.
type tempFile struct {
	*os.File
	name string // its path while it has a temporary name, else ""
}

// createTemp makes an empty temporary file in dir.
func createTemp(dir string) (*tempFile, error) {
	if f, err := openUnnamed(dir); err == nil {
		return &tempFile{File: f}, nil
	} else if !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	return createNamedTemp(dir)
}

// createNamedTemp makes a temporary file that has a name from the start.
func createNamedTemp(dir string) (*tempFile, error) {
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return nil, err
	}
	return &tempFile{File: f, name: f.Name()}, nil
}

// publish gives the file its final name in an atomic step, replacing what has
// it, and makes both contents and name durable. A file without a name gets a
// temporary one in the directory via on the way. Both must be on the file's own file
// system; errors.ErrUnsupported says that they are not, and then nothing was done.
func (t *tempFile) publish(via, path string) error {
	if err := t.Sync(); err != nil {
		return err
	}
	if t.name == "" {
		name := filepath.Join(via, tempPrefix+rand.Text())
		if err := linkUnnamed(t.File, name); err != nil {
			return err
		}
		t.name = name
	}
	if err := os.Rename(t.name, path); err != nil {
		if isCrossDevice(err) {
			return errors.ErrUnsupported
		}
		return err
	}
	t.name = ""
	return syncDir(filepath.Dir(path))
}

// discard closes the file, and removes it when it was not published.
func (t *tempFile) discard() {
	_ = t.Close() // nothing in it is wanted any more, or it was synced
	if t.name != "" {
		_ = os.Remove(t.name) // what stays is removed by the next makeTempDir
	}
}

// makeTempDir makes dir ready for temporary files and removes what a crash left.
func makeTempDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	_, err := removeStale(dir, time.Now().Add(-tempAge))
	return err
}

// removeStale removes the temporary files in dir (not below it) that were last
// written before the given time, and answers how many.
func removeStale(dir string, before time.Time) (removed int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil || info.ModTime().After(before) {
			continue // gone meanwhile, or in use
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, fmt.Errorf("remove stale file: %w", err)
		}
		removed++
	}
	return removed, nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
