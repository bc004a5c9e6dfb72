package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a Bucket in the process's memory, for tests and trials: "durable"
// means until the process ends.
type Memory struct {
	now func() time.Time

	mu      sync.RWMutex
	objects map[string]memoryObject // guarded by mu; the bytes are never changed
}

type memoryObject struct {
	data     []byte
	modified time.Time
}

// NewMemory makes an empty bucket.
func NewMemory() *Memory {
	return &Memory{now: time.Now, objects: map[string]memoryObject{}}
}

// Put implements Bucket.
func (m *Memory) Put(ctx context.Context, key string, r io.ReadSeeker, size int64, _ [32]byte) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	var data bytes.Buffer
	if err := copyExactly(ctx, &data, r, size); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key] = memoryObject{data: data.Bytes(), modified: m.now()}
	return nil
}

// Get implements Bucket.
func (m *Memory) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	o, err := m.object(ctx, key)
	if err != nil {
		return nil, err
	}
	from, to, err := bounds(int64(len(o.data)), offset, length)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return io.NopCloser(bytes.NewReader(o.data[from:to])), nil
}

// OpenSeeker implements SeekOpener.
func (m *Memory) OpenSeeker(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	o, err := m.object(ctx, key)
	if err != nil {
		return nil, err
	}
	return memoryReader{bytes.NewReader(o.data)}, nil
}

type memoryReader struct{ *bytes.Reader }

func (memoryReader) Close() error { return nil }

// Stat implements Bucket.
func (m *Memory) Stat(ctx context.Context, key string) (Object, error) {
	o, err := m.object(ctx, key)
	if err != nil {
		return Object{}, err
	}
	return Object{Key: key, Size: int64(len(o.data)), Modified: o.modified}, nil
}

// Move implements Bucket.
func (m *Memory) Move(ctx context.Context, from, to string) error {
	if err := errors.Join(CheckKey(from), CheckKey(to)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[from]
	if !ok {
		if _, done := m.objects[to]; done {
			return nil
		}
		return fmt.Errorf("move %s: %w", from, ErrNotFound)
	}
	o.modified = m.now()
	delete(m.objects, from)
	m.objects[to] = o
	return nil
}

// Delete implements Bucket.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// List implements Bucket. It lists what was there when it began.
func (m *Memory) List(ctx context.Context, prefix, after string, fn func(Object) error) error {
	var found []Object
	m.mu.RLock()
	for key, o := range m.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			found = append(found, Object{Key: key, Size: int64(len(o.data)), Modified: o.modified})
		}
	}
	m.mu.RUnlock()
	slices.SortFunc(found, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	for _, o := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) object(ctx context.Context, key string) (memoryObject, error) {
	if err := CheckKey(key); err != nil {
		return memoryObject{}, err
	}
	if err := ctx.Err(); err != nil {
		return memoryObject{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[key]
	if !ok {
		return memoryObject{}, fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	return o, nil
}
