package blobstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Dir is a Bucket in a directory: each object is a file, its key the path below
// the root. Files and directories are for this user only (0600, 0700).
//
// An object appears with its whole contents or not at all: it is written without
// a name, synced, and renamed to its key; then the directory is synced. What does
// not fit the grammar of keys (dot files, a lost+found with its own rights) is
// neither listed nor touched.
type Dir struct {
	root string
	// synced has each directory whose name is known to be durable in its parent.
	// There are a few times as many as shards.
	synced sync.Map // path -> struct{}
	now    func() time.Time
}

// OpenDir opens the directory, makes it when missing, and removes what a crash
// left in it.
func OpenDir(root string) (*Dir, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open blob directory %s: %w", root, err)
	}
	if err := makeTempDir(abs); err != nil {
		return nil, fmt.Errorf("open blob directory: %w", err)
	}
	return &Dir{root: abs, now: time.Now}, nil
}

// Put implements Bucket. An upload that was spooled on the same file system is
// given its name and not copied.
func (d *Dir) Put(ctx context.Context, key string, r io.ReadSeeker, size int64, _ [32]byte) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.put(ctx, key, path, r, size); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			d.synced.Clear() // somebody removed a directory: the next Put makes it again
		}
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

func (d *Dir) put(ctx context.Context, key, path string, r io.ReadSeeker, size int64) error {
	if err := d.makeParents(key); err != nil {
		return err
	}
	if spooled, ok := r.(*tempFile); ok {
		if err := checkSize(spooled, size); err != nil {
			return err
		}
		if err := spooled.publish(d.root, path); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return d.copyIn(ctx, path, r, size)
}

// copyIn writes the object from a source that cannot be renamed. The temporary
// file is made in the root: OpenDir looks there for what a crash left.
func (d *Dir) copyIn(ctx context.Context, path string, r io.ReadSeeker, size int64) error {
	f, err := createNamedTemp(d.root)
	if err != nil {
		return err
	}
	defer f.discard()
	if err := copyExactly(ctx, f, r, size); err != nil {
		return err
	}
	return f.publish(d.root, path)
}

// Get implements Bucket.
func (d *Dir) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	f, size, err := d.open(ctx, key)
	if err != nil {
		return nil, err
	}
	from, to, err := bounds(size, offset, length)
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return sectionCloser{io.NewSectionReader(f, from, to-from), f}, nil
}

type sectionCloser struct {
	io.Reader
	io.Closer
}

// OpenSeeker implements SeekOpener; the reader is an *os.File.
func (d *Dir) OpenSeeker(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	f, _, err := d.open(ctx, key)
	if err != nil {
		return nil, err // not f: a nil *os.File in an interface is not nil
	}
	return f, nil
}

// Stat implements Bucket.
func (d *Dir) Stat(ctx context.Context, key string) (Object, error) {
	path, err := d.path(key)
	if err != nil {
		return Object{}, err
	}
	if err := ctx.Err(); err != nil {
		return Object{}, err
	}
	info, err := os.Stat(path)
	if isMissing(err) || err == nil && !info.Mode().IsRegular() {
		return Object{}, fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	if err != nil {
		return Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return Object{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil
}

// Move implements Bucket: it renames the file, which is atomic, and makes both
// directories durable, the new name first.
func (d *Dir) Move(ctx context.Context, from, to string) error {
	source, err := d.path(from)
	if err != nil {
		return err
	}
	target, err := d.path(to)
	if err != nil {
		return err
	}
	if _, err := d.Stat(ctx, from); errors.Is(err, ErrNotFound) {
		if _, err := d.Stat(ctx, to); err != nil {
			return fmt.Errorf("move %s: %w", from, err)
		}
		return d.syncMoved(from, source, target) // a move before may have been cut off here
	} else if err != nil {
		return err
	}
	if err := d.makeParents(to); err != nil {
		return fmt.Errorf("move %s: %w", from, err)
	}
	now := d.now()
	if err := os.Chtimes(source, now, now); err != nil {
		return fmt.Errorf("move %s: %w", from, err)
	}
	if err := os.Rename(source, target); err != nil {
		return fmt.Errorf("move %s: %w", from, err)
	}
	return d.syncMoved(from, source, target)
}

func (d *Dir) syncMoved(key, source, target string) error {
	for _, path := range []string{target, source} {
		if err := syncDir(filepath.Dir(path)); err != nil && !isMissing(err) {
			return fmt.Errorf("move %s: %w", key, err)
		}
	}
	return nil
}

// Delete implements Bucket. Directories that become empty stay: a Put that runs
// at the same time may be about to use them.
func (d *Dir) Delete(ctx context.Context, key string) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	if _, err := d.Stat(ctx, key); errors.Is(err, ErrNotFound) {
		return nil // missing, or a directory, which is no object
	} else if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !isMissing(err) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil && !isMissing(err) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// List implements Bucket. It reads one directory at a time.
func (d *Dir) List(ctx context.Context, prefix, after string, fn func(Object) error) error {
	return d.list(ctx, "", prefix, after, fn)
}

// list lists the directory whose keys start with base ("" or ending in a slash).
func (d *Dir) list(ctx context.Context, base, prefix, after string, fn func(Object) error) error {
	entries, err := os.ReadDir(filepath.Join(d.root, filepath.FromSlash(base)))
	if isMissing(err) && base != "" {
		return nil // removed since its parent was read
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", base, err)
	}
	// A directory sorts with its slash: "a-b" comes before "a/b".
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(listName(a), listName(b)) })
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := base + listName(e)
		switch {
		case CheckKey(base+e.Name()) != nil:
		case e.IsDir():
			// Any key below it starts with key: it has some with the prefix if one
			// is the beginning of the other, and some after `after` unless all come before.
			reachable := strings.HasPrefix(key, prefix) || strings.HasPrefix(prefix, key)
			if reachable && (key > after || strings.HasPrefix(after, key)) {
				if err := d.list(ctx, key, prefix, after, fn); err != nil {
					return err
				}
			}
		case e.Type().IsRegular() && strings.HasPrefix(key, prefix) && key > after:
			info, err := e.Info()
			if isMissing(err) {
				continue // deleted meanwhile
			}
			if err != nil {
				return fmt.Errorf("list %s: %w", key, err)
			}
			if err := fn(Object{Key: key, Size: info.Size(), Modified: info.ModTime()}); err != nil {
				return err
			}
		}
	}
	return nil
}

func listName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

func (d *Dir) open(ctx context.Context, key string) (*os.File, int64, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, 0, err
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if isMissing(err) {
		return nil, 0, fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open %s: %w", key, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotFound
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, 0, fmt.Errorf("open %s: %w", key, err)
	}
	return f, info.Size(), nil
}

// path is where a key's object lies. CheckKey keeps it below the root.
func (d *Dir) path(key string) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return filepath.Join(d.root, filepath.FromSlash(key)), nil
}

// makeParents makes the directories of a key and sees to it that a crash does not
// take them together with the object. It syncs the parent also of a directory that
// it finds: another goroutine or process may have made it a moment ago. Once for
// each directory is enough.
func (d *Dir) makeParents(key string) error {
	dir := d.root
	segments := strings.Split(key, "/")
	for _, segment := range segments[:len(segments)-1] {
		parent := dir
		dir = filepath.Join(dir, segment)
		if _, done := d.synced.Load(dir); done {
			continue
		}
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := syncDir(parent); err != nil {
			return err
		}
		d.synced.Store(dir, struct{}{})
	}
	return nil
}

func checkSize(f *tempFile, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != size {
		return fmt.Errorf("%w: source has %d bytes, not %d", ErrCorrupt, info.Size(), size)
	}
	return nil
}

// isMissing also takes a key below an object ("a/b" where "a" is a file) for missing.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
