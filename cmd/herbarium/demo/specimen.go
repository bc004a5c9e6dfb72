package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// specimen is a thing seen: where, how, and its exact bytes.
type specimen struct {
	kind, value string // source of the observation
	method      string // the tool that looked
	mimeType    string
	content     []byte
	seen        time.Time
}

// Bounds of the text of an observation: the lexicon allows 100,000 bytes and
// 10,000 graphemes; a grapheme has at least one code point.
const (
	maxTextBytes = 90_000
	maxTextRunes = 9_000
)

// maxSpecimen bounds what the demo takes as one specimen, in bytes.
const maxSpecimen = 4 << 20

// text is the content as text, or its start; "" for what is not text.
func (s specimen) text() string {
	if !strings.HasPrefix(s.mimeType, "text/") || !utf8.Valid(s.content) || bytes.ContainsRune(s.content, 0) {
		return ""
	}
	runes := 0
	for i := range string(s.content) {
		if runes == maxTextRunes || i > maxTextBytes {
			return string(s.content[:i])
		}
		runes++
	}
	return string(s.content)
}

// seeFile reads a file.
func seeFile(path, mimeType string) (specimen, error) {
	info, err := os.Stat(path)
	if err != nil {
		return specimen{}, err
	}
	if info.Size() > maxSpecimen {
		return specimen{}, fmt.Errorf("%s has %d bytes, want %d at most", path, info.Size(), maxSpecimen)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return specimen{}, err
	}
	return specimen{kind: "file", value: path, method: "read_file", mimeType: mimeType, content: content, seen: time.Now()}, nil
}

// seeCommand runs a command and keeps what it printed.
func seeCommand(ctx context.Context, name string, args ...string) (specimen, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // what a failing command printed is an observation too
		return specimen{}, err
	}
	line := strings.Join(append([]string{name}, args...), " ")
	return specimen{kind: "command", value: line, method: "run_command", mimeType: "text/plain", content: out, seen: time.Now()}, nil
}

// seePage fetches a page over HTTP.
func seePage(ctx context.Context, url string) (specimen, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return specimen{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return specimen{}, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxSpecimen))
	if err != nil {
		return specimen{}, err
	}
	mimeType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return specimen{kind: "url", value: url, method: "fetch_page", mimeType: mimeType, content: content, seen: time.Now()}, nil
}

// documents finds files that Debian ships on every machine: licences,
// copyright notices and the description of the system.
func documents() []specimen {
	var found []specimen
	patterns := []string{"/usr/share/common-licenses/[A-Z]*", "/usr/share/doc/*/copyright", "/etc/os-release", "/etc/debian_version", "/etc/services"}
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths[:min(len(paths), 6)] {
			if s, err := seeFile(path, "text/plain"); err == nil && len(s.content) > 0 {
				found = append(found, s)
			}
		}
	}
	return found
}

// commands runs a few commands that tell about the machine and change nothing.
func commands(ctx context.Context) []specimen {
	var found []specimen
	for _, line := range [][]string{{"uname", "-a"}, {"df", "-h"}, {"ls", "-l", "/"}, {"id"}, {"ls", "/no/such/folder"}} {
		if s, err := seeCommand(ctx, line[0], line[1:]...); err == nil {
			found = append(found, s)
		}
	}
	return found
}

// picture is a PNG of the machine, or one that the demo draws when there is none.
func picture(dir string) (specimen, error) {
	if path := findFile("/usr/share", ".png"); path != "" {
		return seeFile(path, "image/png")
	}
	img := image.NewRGBA(image.Rect(0, 0, 96, 96))
	for y := range 96 {
		for x := range 96 {
			img.Set(x, y, color.RGBA{R: uint8(0x2c + x/2), G: uint8(0x64 + y/2), B: 0x48, A: 0xff})
		}
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		return specimen{}, err
	}
	path := filepath.Join(dir, "leaf.png")
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		return specimen{}, err
	}
	return seeFile(path, "image/png")
}

// paper is a PDF of the machine, or one that the demo writes when there is none.
func paper(dir string) (specimen, error) {
	if path := findFile("/usr/share", ".pdf"); path != "" {
		return seeFile(path, "application/pdf")
	}
	path := filepath.Join(dir, "label.pdf")
	if err := os.WriteFile(path, onePagePDF("Herbarium specimen, collected "+time.Now().UTC().Format(time.DateOnly)), 0o600); err != nil {
		return specimen{}, err
	}
	return seeFile(path, "application/pdf")
}

// findFile is the first file of up to maxSpecimen bytes with the given ending
// below dir, "" when a bounded look finds none.
func findFile(dir, ending string) string {
	found, visited := "", 0
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if visited++; visited > 50_000 {
			return fs.SkipAll
		}
		if err != nil || !entry.Type().IsRegular() || !strings.HasSuffix(path, ending) {
			return nil
		}
		if info, err := entry.Info(); err == nil && info.Size() > 0 && info.Size() <= maxSpecimen {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// onePagePDF is the smallest PDF that shows one line of text (ISO 32000-1, 7.5).
func onePagePDF(line string) []byte {
	stream := fmt.Sprintf("BT /F1 14 Tf 40 80 Td (%s) Tj ET", line)
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 420 160] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
		fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>",
	}
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	offsets := make([]int, len(objects))
	for i, o := range objects {
		offsets[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, start)
	return b.Bytes()
}
