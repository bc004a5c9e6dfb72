// Package index owns the journal of everything witnessed and the derived tables: heads, classes, conversations, citations and search.
package index
