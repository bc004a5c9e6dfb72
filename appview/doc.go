// Package appview owns the garden.herbarium.* queries: skeleton, hydration, rules and pure row-to-view functions.
package appview
