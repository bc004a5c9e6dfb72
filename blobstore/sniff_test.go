package blobstore_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"mime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
)

const (
	png  = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
	pdf  = "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"
	html = "<!DOCTYPE html>\n<html><body>hi</body></html>"
	svg  = `<svg xmlns="http://www.w3.org/2000/svg"/>`
)

func TestTypeIsDecided(t *testing.T) {
	t.Parallel()
	s, err := blobstore.New(blobstore.Config{Bucket: blobstore.NewMemory(), SpoolDir: t.TempDir()})
	require.NoError(t, err)
	const docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	for _, c := range []struct{ name, body, declared, want string }{
		{"a signature wins over a wrong type", png, "image/jpeg", "image/png"},
		{"over text", png, "text/plain", "image/png"},
		{"over any type", png, "*/*", "image/png"},
		{"over none", pdf, "", "application/pdf"},
		{"gzip", gzipped(t), "application/octet-stream", "application/gzip"},
		{"an archive", zipped(t, "a.txt"), "application/octet-stream", "application/zip"},
		{"a special case stays", zipped(t, "a.txt"), docx, docx},
		{"but not an unrelated type", zipped(t, "a.txt"), "image/png", "application/zip"},

		{"html stays", html, "text/html", "text/html"},
		{"without its parameters", html, "text/html; charset=utf-8", "text/html"},
		{"broken parameters", html, "text/html; charset", "text/html"},
		{"upper case", html, "Text/HTML", "text/html"},
		{"svg", svg, "image/svg+xml", "image/svg+xml"},
		{"svg with a declaration", `<?xml version="1.0"?>` + svg, "image/svg+xml", "image/svg+xml"},
		{"json", `{"a": 1}`, "application/json", "application/json"},
		{"markdown", "# Title\n", "text/markdown", "text/markdown"},
		{"a script", "#!/bin/sh\necho\n", "application/x-sh", "application/x-sh"},
		{"coloured output of a terminal", "\x1b[31mred\x1b[0m\n", "text/plain", "text/plain"},
		{"text that begins like a bitmap", "BM: the meeting\n", "text/plain", "text/plain"},
		{"text that begins like a program", "MZ is a format\n", "text/markdown", "text/markdown"},
		{"text cut in a character", strings.Repeat("é", 2000)[1:], "text/plain", "text/plain"},
		{"html declared as bytes", html, "application/octet-stream", "application/octet-stream"},

		{"nothing known", "\x00\x01\x02\x03 what?", "application/x-own", "application/x-own"},
		{"noise with an MPEG frame in it", noise(), "application/x-own", "application/x-own"},
		{"an MP3", "ID3\x04\x00\x00\x00\x00\x00\x21", "application/octet-stream", "audio/mpeg"},
		{"any type stays", "\x00\x01\x02\x03 what?", "*/*", "*/*"},
		{"no type", "\x00\x01\x02\x03 what?", "", "application/octet-stream"},
		{"no type at all", "\x00\x01\x02\x03 what?", "nonsense", "application/octet-stream"},
		{"a header's worth of nonsense", "x", "text/\r\nSet-Cookie: a", "application/octet-stream"},
		{"empty", "", "text/plain", "text/plain"},
		{"empty without a type", "", "", "application/octet-stream"},
	} {
		info, err := s.Receive(t.Context(), strings.NewReader(c.body), c.declared)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, info.MimeType, c.name)
	}
}

func gzipped(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, gzip.NewWriter(&b).Close())
	return b.String()
}

func zipped(t *testing.T, name string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create(name)
	require.NoError(t, err)
	_, err = f.Write([]byte("text"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// noise is data with what looks like frames of MPEG audio, but not at its start.
func noise() string {
	return "\x00\x01\x02\x03" + strings.Repeat("\xff\xfb\x90\x64"+strings.Repeat("\x00", 413), 6)
}

func FuzzTypeIsDecided(f *testing.F) {
	f.Add([]byte(png), "image/png")
	f.Add([]byte(html), "text/html; charset=utf-8")
	f.Add([]byte(noise()), "*/*")
	f.Add([]byte("PK\x03\x04"), "application/epub+zip")
	f.Fuzz(func(t *testing.T, body []byte, declared string) {
		got := blobstore.DecideType(body, declared)
		// It goes into a header: it must be a bare type.
		bare, parameters, err := mime.ParseMediaType(got)
		if err != nil || bare != got || len(parameters) > 0 || !strings.Contains(got, "/") {
			t.Fatalf("%q declared as %q became %q", body, declared, got)
		}
	})
}
