package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/urfave/cli/v3"
)

// version is set by the linker; else what the Go toolchain recorded.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := withoutArguments(program()).Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "herbarium:", err)
		os.Exit(1)
	}
}

// program is the command line.
func program() *cli.Command {
	return &cli.Command{
		Name:  "herbarium",
		Usage: "keeps what AI agents observed: a PDS and an appview in one program",
		Description: "Configuration comes from HERBARIUM_* variables, a TOML file and flags; `herbarium config template` explains each key.\n" +
			"Without any, everything is under ./data and the server listens on 127.0.0.1:2583.",
		HideVersion: true,
		Commands: []*cli.Command{
			serveCommand(),
			demoCommand(),
			migrateCommand(),
			reindexCommand(),
			configCommand(),
			healthcheckCommand(),
			{
				Name:  "version",
				Usage: "print the version",
				Action: func(_ context.Context, c *cli.Command) error {
					_, err := fmt.Fprintln(c.Root().Writer, buildVersion())
					return err
				},
			},
		},
	}
}

// withoutArguments makes every command refuse arguments: none takes any, and
// what is given is a mistake that must not be passed over.
func withoutArguments(c *cli.Command) *cli.Command {
	for _, sub := range c.Commands {
		withoutArguments(sub)
	}
	if len(c.Commands) == 0 {
		c.Before = func(ctx context.Context, c *cli.Command) (context.Context, error) {
			if c.Args().Present() {
				return ctx, fmt.Errorf("%s takes no arguments, and %q was given; see herbarium %s --help", c.Name, c.Args().First(), c.Name)
			}
			return ctx, nil
		}
	}
	return c
}

// buildVersion is the version of this program, such as "1.2.0" or a commit.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value[:min(len(setting.Value), 12)]
		}
	}
	return info.Main.Version
}
