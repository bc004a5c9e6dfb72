package main

import (
	"context"
	"errors"
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
	if err := strict(program()).Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "herbarium:", err)
		code := exitFailed
		var verdict *verdict
		if errors.As(err, &verdict) {
			code = verdict.code
		}
		os.Exit(code)
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
			agentCommand(),
			blobCommand(),
			repoCommand(),
			lexiconCommand(),
			quarantineCommand(),
			trustCommand(),
			purgeCommand(),
			configCommand(),
			doctorCommand(),
			healthcheckCommand(),
			tokenCommand(),
			auditCommand(),
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

// strict makes every command refuse arguments that it does not declare, and
// miss those that it does: what is given is a mistake that must not be passed
// over.
func strict(c *cli.Command) *cli.Command {
	for _, sub := range c.Commands {
		strict(sub)
	}
	if len(c.Commands) > 0 {
		return c
	}
	c.Before = func(ctx context.Context, c *cli.Command) (context.Context, error) {
		given, want := c.Args().Slice(), len(c.Arguments)
		if want > 0 {
			if _, more := c.Arguments[want-1].(*cli.StringArgs); more && len(given) >= want {
				return ctx, nil
			}
		}
		switch {
		case len(given) < want:
			return ctx, fmt.Errorf("%s needs %s; see herbarium %s --help", c.Name, c.ArgsUsage, c.FullName())
		case len(given) > want && want == 0:
			return ctx, fmt.Errorf("%s takes no arguments, and %q was given; see herbarium %s --help", c.Name, given[0], c.Name)
		case len(given) > want:
			return ctx, fmt.Errorf("%s takes %s alone, and %q was given too; flags come before it", c.Name, c.ArgsUsage, given[want])
		}
		return ctx, nil
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
