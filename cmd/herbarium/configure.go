package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/urfave/cli/v3"

	"herbarium.garden/config"
	"herbarium.garden/lexicons"
	"herbarium.garden/pds/account"
)

// configFlags are a flag for each key that may be one, or for the named ones.
func configFlags(only ...string) []cli.Flag {
	var flags []cli.Flag
	for _, f := range config.Fields() {
		if f.Flag() == "" || only != nil && !slices.Contains(only, f.Flag()) {
			continue
		}
		usage := f.Doc
		if f.Default != "" {
			usage += " Default: " + f.Default
		}
		flags = append(flags, &cli.StringFlag{Name: f.Flag(), Usage: usage, HideDefault: true})
	}
	return flags
}

// configure loads the configuration of a command that has configFlags.
func configure(c *cli.Command) (*config.Config, error) {
	in := config.Input{Environ: os.Environ(), ReadFile: os.ReadFile, Flags: map[string]string{}}
	for _, f := range config.Fields() {
		if name := f.Flag(); name != "" && c.IsSet(name) {
			in.Flags[name] = c.String(name)
		}
	}
	path := c.String("config")
	if path == "" {
		path = os.Getenv(config.Prefix + "CONFIG")
	}
	if path != "" {
		file, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		in.File = file
	}
	return config.Load(in)
}

// settings are those of the rules.
func settings(cfg *config.Config) lexicons.Settings {
	return lexicons.Settings{
		Supersedes: lexicons.Policy(cfg.SupersedesPolicy), Messages: lexicons.MessagePolicy(cfg.MessagesPolicy),
		Secrets: lexicons.Policy(cfg.SecretsPolicy), BlobLimit: int64(cfg.BlobLimit),
	}
}

// logger is the process's log, on standard error.
func logger(cfg *config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

func configCommand() *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "show the configuration, or a template of it",
		Commands: []*cli.Command{
			{
				Name:  "show",
				Usage: "print each key that is in force, with where its value comes from; secrets are hidden",
				Flags: configFlags(),
				Action: func(_ context.Context, c *cli.Command) error {
					cfg, err := configure(c)
					if err != nil {
						return err
					}
					return config.WriteValues(c.Root().Writer, cfg)
				},
			},
			{
				Name:  "template",
				Usage: "print a configuration file with every key, its meaning and its default",
				Action: func(_ context.Context, c *cli.Command) error {
					return config.WriteTemplate(c.Root().Writer)
				},
			},
		},
	}
}

// secretsDir is where the first start keeps the secrets.
func secretsDir(cfg *config.Config) string { return cfg.DataDir + "/secrets" }

// adminPassword is the operator's password as a command beside the server
// finds it: configured, or made by the server's first start.
func adminPassword(cfg *config.Config) (string, error) {
	if cfg.AdminPassword.IsSet() {
		return cfg.AdminPassword.Reveal(), nil
	}
	password, err := account.ReadAdminPassword(secretsDir(cfg))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no admin password: set HERBARIUM_ADMIN_PASSWORD, or name the server's data folder (there is no %s)", secretsDir(cfg))
	}
	return password, err
}
