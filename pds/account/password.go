package account

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Passwords are hashed with argon2id (RFC 9106) at the OWASP cheat sheet's
// parameters, 19 MiB and two passes: about 25 ms on one core. A hash made with
// other parameters is made again at the next sign-in.
var currentCost = cost{memory: 19 << 10, passes: 2, lanes: 1}

type cost struct {
	memory uint32 // KiB
	passes uint32
	lanes  uint8
}

// What a stored hash may ask for: more than we would ever choose, less than
// what harms.
const (
	maxMemory = 256 << 10
	maxPasses = 16
	maxLanes  = 8
)

const (
	saltSize    = 16
	digestSize  = 32
	minPassword = 8
	maxPassword = 256
	// waitingHashes is how many sign-ins may wait for a hash; more are refused
	// at once (ErrBusy) rather than late.
	waitingHashes = 64
)

// hasher bounds how many hashes are computed at once: each takes a core and
// 19 MiB, and anybody may ask for one.
type hasher struct {
	slots chan struct{} // one per running hash
	queue chan struct{} // one per running or waiting hash
	rand  io.Reader
	decoy string // what a password for an unknown account is compared with
}

func newHasher(workers int, random io.Reader) (*hasher, error) {
	h := &hasher{slots: make(chan struct{}, workers), queue: make(chan struct{}, workers+waitingHashes), rand: random}
	salt := make([]byte, saltSize+digestSize)
	if _, err := io.ReadFull(random, salt); err != nil {
		return nil, fmt.Errorf("password decoy: %w", err)
	}
	// No password leads to random bytes.
	h.decoy = encodePHC(currentCost, salt[:saltSize], salt[saltSize:])
	return h, nil
}

// compute runs argon2id in a slot.
func (h *hasher) compute(ctx context.Context, c cost, password string, salt []byte, size int) ([]byte, error) {
	select {
	case h.queue <- struct{}{}:
		defer func() { <-h.queue }()
	default:
		return nil, ErrBusy
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return argon2.IDKey([]byte(password), salt, c.passes, c.memory, c.lanes, uint32(size)), nil
}

// hash answers the PHC string of a password that is fit to be one.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	if len(password) < minPassword || len(password) > maxPassword {
		return "", ErrPasswordUnfit
	}
	salt := make([]byte, saltSize)
	if _, err := io.ReadFull(h.rand, salt); err != nil {
		return "", fmt.Errorf("password salt: %w", err)
	}
	digest, err := h.compute(ctx, currentCost, password, salt, digestSize)
	if err != nil {
		return "", err
	}
	return encodePHC(currentCost, salt, digest), nil
}

// verify compares a password with a PHC string; "" stands for an account that
// does not exist or has none, and takes the same time. outdated: the hash was
// made with other parameters than today's.
func (h *hasher) verify(ctx context.Context, phc, password string) (ok, outdated bool, err error) {
	known := phc != ""
	if !known {
		phc = h.decoy
	}
	c, salt, want, err := parsePHC(phc)
	if err != nil {
		return false, false, err
	}
	if len(password) > maxPassword {
		password, known = password[:maxPassword], false
	}
	got, err := h.compute(ctx, c, password, salt, len(want))
	if err != nil {
		return false, false, err
	}
	equal := subtle.ConstantTimeCompare(got, want) == 1
	return equal && known, c != currentCost || len(want) != digestSize, nil
}

// encodePHC writes the PHC string format of argon2id.
func encodePHC(c cost, salt, digest []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.memory, c.passes, c.lanes, b64(salt), b64(digest))
}

var errPHC = errors.New("stored password hash is malformed")

// parsePHC reads what encodePHC writes, with bounded parameters: a hash may be
// restored from a backup or imported.
func parsePHC(phc string) (c cost, salt, digest []byte, err error) {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return cost{}, nil, nil, errPHC
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.memory, &c.passes, &c.lanes); err != nil {
		return cost{}, nil, nil, errPHC
	}
	if c.passes < 1 || c.passes > maxPasses || c.lanes < 1 || c.lanes > maxLanes || c.memory < 8*uint32(c.lanes) || c.memory > maxMemory {
		return cost{}, nil, nil, errPHC
	}
	salt, err1 := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	digest, err2 := base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(salt) < 8 || len(salt) > 64 || len(digest) < 16 || len(digest) > 64 {
		return cost{}, nil, nil, errPHC
	}
	return c, salt, digest, nil
}
