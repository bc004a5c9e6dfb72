// Package migrations owns the SQL of both databases in both dialects, and opening a database with its migrations applied.
package migrations
