package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/urfave/cli/v3"

	"herbarium.garden/appview/index"
	"herbarium.garden/config"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// databases are both databases of a configuration.
func databases(cfg *config.Config) map[migrations.Database]config.DSN {
	return map[migrations.Database]config.DSN{migrations.PDS: cfg.PDSDB, migrations.Appview: cfg.AppviewDB}
}

func migrateCommand() *cli.Command {
	return &cli.Command{
		Name:  "migrate",
		Usage: "bring both databases up to date (serve does it too), or tell how they stand",
		Flags: append(configFlags(), &cli.BoolFlag{Name: "status", Usage: "change nothing, list the migrations; exit code 1 when one is missing"}),
		Action: func(ctx context.Context, c *cli.Command) error {
			cfg, err := configure(c)
			if err != nil {
				return err
			}
			pending := 0
			for _, name := range []migrations.Database{migrations.PDS, migrations.Appview} {
				dsn := databases(cfg)[name].Reveal()
				if !c.Bool("status") {
					db, err := migrations.Open(ctx, name, dsn)
					if err != nil {
						return err
					}
					if err := db.Close(); err != nil {
						return err
					}
				}
				found, err := migrations.Inspect(ctx, name, dsn)
				if err != nil && !errors.Is(err, migrations.ErrNoDatabase) { // which lists them all as missing
					return err
				}
				for _, step := range found.Steps {
					state := "applied"
					if !step.Applied {
						state = "missing"
						pending++
					}
					if _, err := fmt.Fprintf(c.Root().Writer, "%-8s %-8s %s\n", name, state, step.Name); err != nil {
						return err
					}
				}
			}
			if pending > 0 {
				return fmt.Errorf("%d migrations are missing: herbarium migrate", pending)
			}
			return nil
		},
	}
}

func reindexCommand() *cli.Command {
	return &cli.Command{
		Name:  "reindex",
		Usage: "build the derived tables of the index again from its journal",
		Description: "Readers see the old answers until the new ones are complete. The journal itself, which can't be rebuilt, is only read.\n" +
			"With SQLite, stop the server first: the rebuild holds the one place for writing.",
		Flags: configFlags(),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			cfg, err := configure(c)
			if err != nil {
				return err
			}
			db, err := migrations.Open(ctx, migrations.Appview, cfg.AppviewDB.Reveal())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			catalog, err := lexicons.Load()
			if err != nil {
				return err
			}
			idx, err := index.New(index.Config{DB: db, Rules: lexicons.NewRules(catalog, settings(cfg))})
			if err != nil {
				return err
			}
			start := time.Now()
			if err := idx.Reindex(ctx); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.Root().Writer, "index rebuilt from its journal in %s\n", time.Since(start).Round(time.Millisecond))
			return err
		},
	}
}

// healthTimeout bounds the question of healthcheck.
const healthTimeout = 5 * time.Second

func healthcheckCommand() *cli.Command {
	return &cli.Command{
		Name:  "healthcheck",
		Usage: "ask the running server whether it is ready; exit code 0 when it is",
		Flags: configFlags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			cfg, err := configure(c)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, healthTimeout)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dialable(cfg.Listen)+"/readyz", nil)
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return fmt.Errorf("healthcheck: %w", err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("healthcheck: not ready (%s)", resp.Status)
			}
			_, err = fmt.Fprintln(c.Root().Writer, "ready")
			return err
		},
	}
}
