package appview

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type exportConversationParams struct {
	URI    syntax.ATURI `param:"uri"`
	Format string       `param:"format"`
}

// transcript writes a conversation as a file, page by page.
type transcript interface {
	head(c *conversationView) error
	turns(c *conversationView) error
	foot(c *conversationView, models []modelUse) error
}

// exportConversation answers with the whole of a conversation, as its view shows it.
func (a *Appview) exportConversation(ctx context.Context, call *xrpc.Call, p exportConversationParams) error {
	uri, err := a.recordURI(ctx, p.URI, lexicons.ChatSessionNSID)
	if err != nil {
		return err
	}
	v := a.viewer(call.Viewer)
	at := index.Page{Limit: index.MaxLimit}
	// The first page is there before the first byte: what is refused is refused as usual.
	page, next, err := a.conversationPage(ctx, v, uri, at, 0)
	if err != nil {
		return err
	}
	var file transcript = markdownTranscript{call.Writer}
	contentType, name := "text/markdown; charset=utf-8", uri.RecordKey().String()+".md"
	if p.Format == "html" {
		file = htmlTranscript{call.Writer}
		contentType, name = "text/html; charset=utf-8", uri.RecordKey().String()+".html"
	}
	header := call.Writer.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'")
	header.Set("X-Content-Type-Options", "nosniff")
	call.Writer.WriteHeader(http.StatusOK)
	if err := file.head(page); err != nil {
		return err
	}
	var models []modelUse
	for {
		if err := file.turns(page); err != nil {
			return err
		}
		models = addModels(models, page.Models)
		if next == nil {
			return file.foot(page, models)
		}
		at.After = &index.Position{Key: next.Key, URI: next.URI}
		if page, next, err = a.conversationPage(ctx, v, uri, at, next.Shown); err != nil {
			return err
		}
	}
}

// addModels adds the turns of each model on a page to those of the pages before.
func addModels(models, more []modelUse) []modelUse {
	for _, m := range more {
		i := slices.IndexFunc(models, func(u modelUse) bool { return u.Model == m.Model })
		if i < 0 {
			models = append(models, m)
			continue
		}
		models[i].Turns += m.Turns
	}
	sortModels(models)
	return models
}

// markdownTranscript is the form of getConversation's markdown.
type markdownTranscript struct{ out io.Writer }

func (t markdownTranscript) write(write func(out *strings.Builder)) error {
	var out strings.Builder
	write(&out)
	_, err := io.WriteString(t.out, out.String())
	return err
}

func (t markdownTranscript) head(c *conversationView) error {
	return t.write(func(out *strings.Builder) { writeConversationHead(out, c, nil) })
}

func (t markdownTranscript) turns(c *conversationView) error {
	return t.write(func(out *strings.Builder) {
		for _, turn := range c.Turns {
			writeTurn(out, turn)
		}
	})
}

func (t markdownTranscript) foot(c *conversationView, models []modelUse) error {
	return t.write(func(out *strings.Builder) {
		writeConversationFoot(out, c)
		facts(out, modelWords(models))
	})
}

//go:embed transcript.html.tmpl
var transcriptSource string

// transcriptPage has a template for each part of the page. It holds all it needs:
// opened from a disk it fetches nothing.
var transcriptPage = template.Must(template.New("transcript").Funcs(template.FuncMap{
	"actor": actorView.name,
	"count": func(n int64, one, many string) string { return count(n, one, many) },
	"gone":  gone,
	"or":    or,
	"prose": prose,
	"short": func(uri string) string { return shortName(syntax.ATURI(uri)) },
	"time":  humanTime,
	"words": func(t turnView) []word { return splitBars(t.Text) },
	"away":  retractedWords,
	"untitled": func(c *conversationView) string {
		if c.LabelInferred && c.Label != "" {
			return untitledWords
		}
		return ""
	},
}).Parse(transcriptSource))

// word is a stretch of what a person wrote, or what stands for words that were taken away.
type word struct {
	Text string
	Bar  bool
}

func splitBars(text string) []word {
	var words []word
	for i, part := range strings.Split(normalizeLines(text), bar) {
		if i > 0 {
			words = append(words, word{Text: bar, Bar: true})
		}
		if part != "" {
			words = append(words, word{Text: part})
		}
	}
	return words
}

// htmlTranscript is one page for a browser.
type htmlTranscript struct{ out io.Writer }

func (t htmlTranscript) head(c *conversationView) error {
	return transcriptPage.ExecuteTemplate(t.out, "head", c)
}

func (t htmlTranscript) turns(c *conversationView) error {
	return transcriptPage.ExecuteTemplate(t.out, "turns", c)
}

func (t htmlTranscript) foot(c *conversationView, models []modelUse) error {
	return transcriptPage.ExecuteTemplate(t.out, "foot", struct {
		*conversationView
		AllModels []modelUse
	}{c, models})
}
