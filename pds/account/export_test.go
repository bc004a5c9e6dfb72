package account

import "context"

// Internals that the external tests reach.
var (
	ParsePHC       = func(s string) error { _, _, _, err := parsePHC(s); return err }
	HostName       = hostName
	NormalizeEmail = normalizeEmail
)

// WeakPHC hashes with other parameters than today's, as an older version did.
func (s *Store) WeakPHC(password string) (string, error) {
	salt := []byte("0123456789abcdef")
	c := cost{memory: 8 << 10, passes: 1, lanes: 1}
	digest, err := s.hasher.compute(context.Background(), c, password, salt, 32)
	return encodePHC(c, salt, digest), err
}
