// Package console will own the admin web console. There is nothing in it yet.
//
// It will hide templates, assets, and the sessions of the people who sign in.
// It imports none of our packages: it declares the small interfaces that its
// pages need, and cmd satisfies them with the methods that the XRPC handlers
// call too, so that there is no second logic.
package console
