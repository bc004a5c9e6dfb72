// Package console owns the admin web console.
package console
