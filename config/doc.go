// Package config owns typed, documented configuration: pure Load, redacted printing with the source of each value.
package config
