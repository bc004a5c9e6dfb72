package account

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"
)

// envelopeV1 starts a wrapped key: version, the first bytes of a hash of the
// wrapping key (so that a wrong master key is told from an altered envelope,
// and that two may be in use while one is replaced), nonce, ciphertext.
const envelopeV1 = 1

const keyIDSize = 4

// keyring wraps private keys with XChaCha20-Poly1305, whose nonces are long
// enough to be random. The additional data binds an envelope to its place:
// moved to another account or purpose it does not open.
type keyring struct {
	aead cipher.AEAD
	id   [keyIDSize]byte
	rand io.Reader
}

func newKeyring(master *[masterKeySize]byte, random io.Reader) (*keyring, error) {
	// A key of its own for this use, so that the master key may serve others.
	key, err := hkdf.Key(sha256.New, master[:], nil, "herbarium keys at rest v1", chacha20poly1305.KeySize)
	if err != nil {
		return nil, fmt.Errorf("derive wrapping key: %w", err)
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, fmt.Errorf("wrapping key: %w", err)
	}
	k := &keyring{aead: aead, rand: random}
	sum := sha256.Sum256(append([]byte("id"), key...))
	copy(k.id[:], sum[:])
	return k, nil
}

func boundTo(purpose, subject string) []byte { return []byte(purpose + "\x00" + subject) }

func (k *keyring) wrap(purpose, subject string, secret []byte) ([]byte, error) {
	nonce := make([]byte, chacha20poly1305.NonceSizeX)
	if _, err := io.ReadFull(k.rand, nonce); err != nil {
		return nil, fmt.Errorf("wrap %s key: %w", purpose, err)
	}
	envelope := append([]byte{envelopeV1}, k.id[:]...)
	envelope = append(envelope, nonce...)
	return k.aead.Seal(envelope, nonce, secret, boundTo(purpose, subject)), nil
}

func (k *keyring) unwrap(purpose, subject string, envelope []byte) ([]byte, error) {
	const head = 1 + keyIDSize + chacha20poly1305.NonceSizeX
	if len(envelope) < head || envelope[0] != envelopeV1 {
		return nil, fmt.Errorf("unwrap %s key of %s: unknown envelope: %w", purpose, subject, ErrMasterKey)
	}
	if [keyIDSize]byte(envelope[1:]) != k.id {
		return nil, fmt.Errorf("unwrap %s key of %s: wrapped by another master key: %w", purpose, subject, ErrMasterKey)
	}
	secret, err := k.aead.Open(nil, envelope[1+keyIDSize:head], envelope[head:], boundTo(purpose, subject))
	if err != nil {
		return nil, fmt.Errorf("unwrap %s key of %s: the envelope was altered or moved: %w", purpose, subject, ErrMasterKey)
	}
	return secret, nil
}
