package blobstore

import (
	"fmt"
	"strings"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
)

// The key layout of a bucket. A CID is written as atproto writes it (version 1,
// base32 lower case), so that a listing can be read by people and by tools.
//
//	<bucket>
//	├── objects/                one object per CID, whoever uploaded it
//	│   └── <shard>/            2 characters of the CID, see shardOf: 1,024 shards
//	│       └── <cid>           the exact bytes, nothing around them
//	├── trash/<shard>/<cid>     what nothing referenced, until it is deleted for good
//	├── quarantine/<shard>/<cid>  what did not hash to its CID, for people to look at
//	└── probe/                  Probe's, which removes it
//
// Everything else is left alone: no walk sees it.

// Place is a part of the bucket. A blob is served from Live alone.
type Place string

// The places of a blob.
const (
	Live       Place = "objects/"
	Trash      Place = "trash/"
	Quarantine Place = "quarantine/"
)

// String is the place's name, without the slash of its prefix.
func (p Place) String() string { return strings.TrimSuffix(string(p), "/") }

// keyOf gives the object key of a blob in a place. ok is false for a CID that
// cannot name a blob: atproto blobs are CID version 1, raw codec, SHA-256.
func (p Place) keyOf(c cid.Cid) (key string, ok bool) {
	if !isBlobCID(c) {
		return "", false
	}
	name := c.String()
	return string(p) + shardOf(name) + "/" + name, true
}

// cidOf is the reverse of keyOf; ok is false for a key that keyOf never gives.
func (p Place) cidOf(key string) (c cid.Cid, ok bool) {
	name := key[strings.LastIndexByte(key, '/')+1:]
	c, err := cid.Decode(name)
	if err != nil {
		return cid.Undef, false
	}
	if canonical, ok := p.keyOf(c); !ok || canonical != key {
		return cid.Undef, false
	}
	return c, true
}

// shardOf takes the two characters before the last. The first ones are the same
// in every CID, and the last carries 3 bits only.
func shardOf(name string) string { return name[len(name)-3 : len(name)-1] }

func isBlobCID(c cid.Cid) bool {
	if !c.Defined() {
		return false
	}
	p := c.Prefix()
	return p.Version == 1 && p.Codec == cid.Raw && p.MhType == multihash.SHA2_256 && p.MhLength == 32
}

// cidFromDigest makes the CID of a blob from the SHA-256 of its bytes.
func cidFromDigest(digest [32]byte) (cid.Cid, error) {
	mh, err := multihash.Encode(digest[:], multihash.SHA2_256)
	if err != nil {
		return cid.Undef, fmt.Errorf("encode multihash: %w", err)
	}
	return cid.NewCidV1(cid.Raw, mh), nil
}

// digestOf is the SHA-256 that a blob's CID promises.
func digestOf(c cid.Cid) (digest [32]byte, err error) {
	decoded, err := multihash.Decode(c.Hash())
	if err != nil {
		return digest, fmt.Errorf("decode multihash of %s: %w", c, err)
	}
	copy(digest[:], decoded.Digest)
	return digest, nil
}
