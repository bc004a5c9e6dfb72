package main

import (
	"fmt"
	"os"
	"path/filepath"

	"herbarium.garden/lexicons/internal/structural"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: write LEXICONS_FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder string) error {
	dir, err := structural.ModuleDir()
	if err != nil {
		return err
	}
	files, err := structural.Files(dir)
	if err != nil {
		return err
	}
	for _, made := range []string{"app", filepath.Join("com", "atproto")} {
		if err := os.RemoveAll(filepath.Join(folder, made)); err != nil {
			return err
		}
	}
	for path, content := range files {
		to := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
