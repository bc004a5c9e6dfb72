// Command write renews the com.atproto.* lexicon files from the pinned indigo
// module. Its only argument is the lexicons folder.
package main
