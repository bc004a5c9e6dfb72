package demo

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Manifest lists what the host acknowledged, so that a program that shares no
// code with Herbarium can check it against exported repos. It holds access
// tokens: the file is for its owner alone.
type Manifest struct {
	Host         string          `json:"host"`
	Service      string          `json:"service"`
	Agents       []ManifestAgent `json:"agents"`
	Records      []strongRef     `json:"records"`
	Blobs        []ManifestBlob  `json:"blobs"`
	Chains       []ManifestChain `json:"chains"`
	Conversation ManifestChat    `json:"conversation"`
}

// ManifestAgent is an agent with the token to export its repo.
type ManifestAgent struct {
	DID       syntax.DID `json:"did"`
	Handle    string     `json:"handle"`
	AccessJWT string     `json:"accessJwt"`
}

// ManifestBlob is an uploaded blob that a record refers to.
type ManifestBlob struct {
	DID      syntax.DID `json:"did"`
	CID      string     `json:"cid"`
	MimeType string     `json:"mimeType"`
	Size     int64      `json:"size"`
}

// ManifestChain is a chain of observations, oldest first.
type ManifestChain struct {
	Head    string   `json:"head"`
	Members []string `json:"members"`
}

// ManifestChat is a conversation with its turns in reading order.
type ManifestChat struct {
	URI   string   `json:"uri"`
	Turns []string `json:"turns"`
}

func (d *demo) writeManifest(path string) error {
	m := Manifest{Host: d.url, Service: d.service, Conversation: ManifestChat{URI: d.chat.URI}}
	for _, a := range []*agent{d.scout, d.scribe} {
		token := ""
		if auth, ok := a.client.Auth.(*atclient.PasswordAuth); ok {
			token, _ = auth.GetTokens()
		}
		m.Agents = append(m.Agents, ManifestAgent{DID: a.did, Handle: a.handle, AccessJWT: token})
		m.Records = append(m.Records, a.records...)
		seen := map[string]bool{}
		for _, b := range a.blobs {
			if !seen[b.CID] {
				seen[b.CID] = true
				m.Blobs = append(m.Blobs, ManifestBlob{DID: a.did, CID: b.CID, MimeType: b.MimeType, Size: b.Size})
			}
		}
	}
	for _, chain := range d.chains() {
		c := ManifestChain{Head: chain[len(chain)-1].URI}
		for _, member := range chain {
			c.Members = append(c.Members, member.URI)
		}
		m.Chains = append(m.Chains, c)
	}
	for _, turn := range d.turns {
		m.Conversation.Turns = append(m.Conversation.Turns, turn.URI)
	}
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return nil
}
