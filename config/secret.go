package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// redacted stands for a secret wherever one would be printed.
const redacted = "***"

// Secret is a value that prints as ***, whatever the verb, logger or encoder.
// It hides behind a pointer, so that printing a struct that holds one in an
// unexported field shows an address and not the value.
type Secret struct{ value *string }

// NewSecret makes a Secret, for tests and for secrets that come another way.
func NewSecret(value string) Secret { return Secret{value: &value} }

// Reveal answers the value; "" when it was not configured.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet reports whether a value was configured.
func (s Secret) IsSet() bool { return s.value != nil && *s.value != "" }

func (s Secret) String() string {
	if !s.IsSet() {
		return ""
	}
	return redacted
}

// Format implements fmt.Formatter for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, and thereby JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// DSN names a database, "sqlite:PATH" or "postgres://…". It prints without the
// password.
type DSN struct{ value Secret }

// NewDSN makes a DSN, for tests.
func NewDSN(dsn string) DSN { return DSN{value: NewSecret(dsn)} }

// Reveal answers the whole connection string, to open the database with.
func (d DSN) Reveal() string { return d.value.Reveal() }

func (d DSN) String() string {
	raw := d.Reveal()
	if strings.HasPrefix(raw, "sqlite:") {
		return raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return redacted
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), redacted)
	}
	query := u.Query()
	for key := range query {
		if strings.Contains(strings.ToLower(key), "password") {
			query.Set(key, redacted)
		}
	}
	u.RawQuery = query.Encode()
	return strings.ReplaceAll(u.String(), url.QueryEscape(redacted), redacted)
}

// Format implements fmt.Formatter for every verb.
func (d DSN) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// LogValue implements slog.LogValuer.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

// MarshalJSON writes the redacted form.
func (d DSN) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }
