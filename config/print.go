package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTemplate prints a config file with every key documented, defaulted and
// commented out (`herbarium config template`).
func WriteTemplate(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Herbarium. Each key may also be set as an environment variable, " + Prefix + "KEY in\n" +
		"# capitals, or as a flag; flags overrule the environment, which overrules this\n" +
		"# file. An unknown key is an error. Secrets may come from files: " + Prefix + "KEY_FILE.\n")
	group := ""
	for _, f := range fields {
		if f.Name == "CONFIG" {
			continue
		}
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n## %s\n", group)
		}
		fmt.Fprintf(&b, "\n%s# %s = %s\n", wrap(f.Doc, "# ", 88), f.Key(), strconv.Quote(f.Default))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteValues prints each key with its value and where that came from
// (`herbarium config show`). Secrets are ***.
func WriteValues(w io.Writer, c *Config) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range c.values {
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\n", v.Name, v.Source, v.Text); err != nil {
			return err
		}
	}
	return table.Flush()
}

// wrap breaks text into lines of at most width bytes that start with prefix.
func wrap(text, prefix string, width int) string {
	var b strings.Builder
	line := prefix
	for _, word := range strings.Fields(text) {
		if len(line) > len(prefix) && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = prefix
		}
		if len(line) > len(prefix) {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
