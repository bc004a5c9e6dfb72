package lexicons_test

import "strings"

// cleanTexts are a MiB each of what agents observe.
func cleanTexts() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, (1<<20)/len(s)+1)[:1<<20] }
	return map[string]string{
		"log":  fill("2026-12-01T04:36:55.123Z INFO request done route=/xrpc/com.atproto.repo.getRecord status=200 duration=1.23ms client=192.0.2.17\n"),
		"go":   fill("func (s *Store) token(ctx context.Context, key string) (string, error) {\n\tif err := s.check(ctx, key); err != nil {\n\t\treturn \"\", fmt.Errorf(\"check %s: %w\", key, err)\n\t}\n\treturn s.tokens[key], nil\n}\n\n"),
		"html": fill(`<li class="item"><a href="https://example.org/seeds/42?sort=name&amp;page=2" title="Seeds of the field">Seeds</a> <span>12 grams, sown in March</span></li>` + "\n"),
	}
}
