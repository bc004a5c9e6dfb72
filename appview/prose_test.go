package appview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"herbarium.garden/appview"
)

// What comes of markdown that means harm: by the rules of CommonMark it is text,
// or it is not there.
func TestProseOfHostileMarkdown(t *testing.T) {
	for written, shown := range map[string]string{
		"**b** *i* `c`":                            "<p><strong>b</strong> <em>i</em> <code>c</code></p>\n",
		"# one\n\n##### five":                      "<h3>one</h3>\n<h6>five</h6>\n",
		"<script>alert(1)</script>":                "\n",
		"a <b onclick=x>b</b>":                     "<p>a b</p>\n",
		"<img src=x onerror=alert(1)>":             "\n",
		"![alt](https://evil.test/pixel.png)":      "<p></p>\n",
		"[x](javascript:alert(1))":                 "<p>x</p>\n",
		"[x](JaVaScRiPt&colon;alert(1))":           "<p>x</p>\n",
		"[x](data:text/html,<script>1</script>)":   "<p>x</p>\n",
		"[x](//evil.test/)":                        "<p>x</p>\n",
		"[x](at://did:web:a.test)":                 "<p>x</p>\n",
		"[x](https://a.test/?q=\"><b>)":            `<p><a href="https://a.test/?q=%22%3E%3Cb%3E" rel="nofollow noreferrer noopener" target="_blank">x</a></p>` + "\n",
		"[x](https://a.test/)":                     `<p><a href="https://a.test/" rel="nofollow noreferrer noopener" target="_blank">x</a></p>` + "\n",
		"<https://a.test/>":                        `<p><a href="https://a.test/" rel="nofollow noreferrer noopener" target="_blank">https://a.test/</a></p>` + "\n",
		"<style>*{display:none}</style>":           "\n",
		"a <style>*{}</style> b":                   "<p>a *{} b</p>\n",
		"<a href=\"https://a.test\" style=x>y</a>": "<p>y</p>\n",
		"```\n<script>\n```":                       "<pre><code>&lt;script&gt;\n</code></pre>\n",
		"&lt;script&gt;":                           "<p>&lt;script&gt;</p>\n",
		"a\x00b":                                   "<p>a\uFFFDb</p>\n",
	} {
		assert.Equal(t, shown, string(appview.Prose(written)), written)
	}
}
