// Package operator owns the people who run the host: roles, API tokens and the audit log.
package operator
