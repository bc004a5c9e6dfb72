// Package pds owns the com.atproto.* handlers, garden.herbarium.validateRecord, the host's admin methods, authentication, proxying and rate limits.
package pds
