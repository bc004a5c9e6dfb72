package account

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// The files of a secrets folder.
const (
	masterKeyFile     = "master-key"
	jwtSecretFile     = "jwt-secret"
	adminPasswordFile = "admin-password"
)

const (
	masterKeySize    = 32
	minJWTSecretSize = 32
	maxSecretSize    = 4 << 10
)

// Secrets are the three secrets of a host. Nothing prints them.
type Secrets struct {
	masterKey     *[masterKeySize]byte
	jwtSecret     *[]byte
	adminPassword *[sha256.Size]byte // only ever compared
	created       []string
}

// GivenSecrets are secrets from the configuration; "" means: from the folder.
type GivenSecrets struct {
	MasterKey     string // 32 bytes as base64url (padded or not) or hex
	JWTSecret     string // at least 32 bytes
	AdminPassword string
	// KeysExist says that the database holds keys already (HasKeys): a master key
	// that is neither given nor in the folder is then missing, not to be made.
	KeysExist bool
}

// LoadOrCreateSecrets takes the given secrets, reads the others from the
// folder dir and creates those that are not there: the folder with mode 0700,
// files with 0600. Processes that start at once on one folder end up with the
// same secrets, and a crash leaves either no file or a whole one.
//
// It refuses a folder or file that anybody but its owner may open: whatever
// was in it may have been read.
func LoadOrCreateSecrets(dir string, given GivenSecrets) (*Secrets, error) {
	s := &Secrets{}
	for _, secret := range []struct {
		file, given string
		random      int // bytes, when it must be made
		take        func(string) error
	}{
		{masterKeyFile, given.MasterKey, masterKeySize, s.takeMasterKey},
		{jwtSecretFile, given.JWTSecret, minJWTSecretSize, s.takeJWTSecret},
		{adminPasswordFile, given.AdminPassword, 24, s.takeAdminPassword},
	} {
		value := secret.given
		if value == "" {
			path := filepath.Join(dir, secret.file)
			if secret.file == masterKeyFile && given.KeysExist {
				if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
					return nil, fmt.Errorf("%w: there is no %s, and the database holds keys that only it opens; bring it back, or set MASTER_KEY", ErrMasterKey, path)
				}
			}
			created, err := createSecret(path, secret.random)
			if err != nil {
				return nil, fmt.Errorf("create secret %s: %w", path, err)
			}
			if created {
				s.created = append(s.created, path)
			}
			if value, err = readSecret(path); err != nil {
				return nil, fmt.Errorf("read secret %s: %w", path, err)
			}
		}
		if err := secret.take(value); err != nil {
			return nil, fmt.Errorf("secret %s: %w", secret.file, err)
		}
	}
	return s, nil
}

// Created lists the paths of the files that this call wrote, to be told to the
// operator. Never what is in them.
func (s *Secrets) Created() []string { return s.created }

// IsAdminPassword compares in constant time.
func (s *Secrets) IsAdminPassword(password string) bool {
	sum := sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(sum[:], s.adminPassword[:]) == 1
}

// ReadAdminPassword reads the admin password of a secrets folder, for programs
// that the operator runs on the same machine. The same rules hold for the file.
func ReadAdminPassword(dir string) (string, error) {
	password, err := readSecret(filepath.Join(dir, adminPasswordFile))
	if err != nil {
		return "", fmt.Errorf("read admin password: %w", err)
	}
	return password, nil
}

func (s Secrets) String() string { return "***" }

// Format implements fmt.Formatter for every verb.
func (s Secrets) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secrets) LogValue() slog.Value { return slog.StringValue(s.String()) }

func (s *Secrets) takeMasterKey(text string) error {
	key, err := hex.DecodeString(text)
	if err != nil {
		key, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	}
	if err != nil || len(key) != masterKeySize {
		return fmt.Errorf("want %d bytes as base64url or hex", masterKeySize)
	}
	s.masterKey = (*[masterKeySize]byte)(key)
	return nil
}

func (s *Secrets) takeJWTSecret(text string) error {
	if len(text) < minJWTSecretSize {
		return fmt.Errorf("want at least %d bytes", minJWTSecretSize)
	}
	secret := []byte(text)
	s.jwtSecret = &secret
	return nil
}

func (s *Secrets) takeAdminPassword(text string) error {
	if text == "" {
		return errors.New("want a password")
	}
	sum := sha256.Sum256([]byte(text))
	s.adminPassword = &sum
	return nil
}

// createSecret writes size random bytes to path unless it exists. The content
// is complete and on disk before the name appears: it is written under another
// name and then linked, which fails if somebody else was first.
func createSecret(path string, size int) (created bool, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	if err := private(dir, fs.ModeDir); err != nil {
		return false, err
	}
	if _, err := os.Lstat(path); err == nil {
		return false, nil
	}
	random := make([]byte, size)
	if _, err := rand.Read(random); err != nil {
		return false, err
	}
	temp, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.Remove(temp.Name())) }()
	_, err = temp.WriteString(base64.RawURLEncoding.EncodeToString(random) + "\n")
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return false, err
	}
	if err := os.Link(temp.Name(), path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return false, err
	}
	return true, syncDir(dir)
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readSecret(path string) (string, error) {
	if err := private(path, 0); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxSecretSize+1))
	if err != nil {
		return "", err
	}
	if len(content) > maxSecretSize {
		return "", errors.New("too large for a secret")
	}
	value := strings.TrimRight(string(content), "\r\n")
	if value == "" {
		return "", errors.New("empty: remove it to have a new one made, or restore it")
	}
	return value, nil
}

// private refuses what is not of the wanted type or open to others.
func private(path string, kind fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != kind {
		return fmt.Errorf("is a %s: want a plain file in a plain folder", info.Mode())
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return fmt.Errorf("mode %#o lets others in: chmod go-rwx it, and replace the secret if others could read it", info.Mode().Perm())
	}
	return nil
}
