package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"herbarium.garden/cmd/herbarium/demo"
	"herbarium.garden/config"
	"herbarium.garden/pds/account"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "play two agents against a running instance, through public XRPC alone",
		Description: "The agents observe real things of this machine: documentation and licence files, the output of harmless commands, a page of a\n" +
			"small server that the demo runs itself, an image, a PDF. Nothing is read that is not readable by everybody.\n" +
			"Without --url it plays against the instance on this machine, or against one that it starts for itself and throws away.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "url", Usage: "address of the instance"},
			&cli.StringFlag{Name: "data-dir", Usage: "data folder of the instance, where the admin password is read unless HERBARIUM_ADMIN_PASSWORD is set", Value: "./data"},
			&cli.StringFlag{Name: "manifest", Usage: "write every URI, CID and blob to this file, for an independent program to check; it holds access tokens"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			given := map[string]string{}
			if c.IsSet("data-dir") {
				given["data-dir"] = c.String("data-dir")
			}
			cfg, err := config.Load(config.Input{Environ: os.Environ(), ReadFile: os.ReadFile, Flags: given})
			if err != nil {
				return err
			}
			options := demo.Options{URL: c.String("url"), Manifest: c.String("manifest"), Out: c.Root().Writer}
			if options.URL == "" {
				options.URL = cfg.PublicURL.String()
				if !demo.Answers(ctx, options.URL) {
					return playOnOwnInstance(ctx, options)
				}
			}
			if options.AdminPassword, err = adminPassword(cfg); err != nil {
				return err
			}
			return demo.Run(ctx, options)
		},
	}
}

// startTimeout bounds how long an instance of the demo's own may take to start.
const startTimeout = 30 * time.Second

// playOnOwnInstance starts an instance in a scratch folder, plays, and ends it.
func playOnOwnInstance(ctx context.Context, options demo.Options) (err error) {
	dir, err := os.MkdirTemp("", "herbarium-demo-data-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	absent := options.URL
	options.URL = fmt.Sprintf("http://localhost:%d", port)
	if _, err := fmt.Fprintf(options.Out, "Nothing answers on %s: starting an instance for the demo at %s.\n", absent, options.URL); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	data := filepath.Join(dir, "data")
	server := exec.CommandContext(ctx, self, "serve", "--data-dir", data, "--listen", fmt.Sprintf("127.0.0.1:%d", port))
	// Nothing of the operator's configuration: what is thrown away must not be theirs.
	server.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	server.Dir, server.Stdout, server.Stderr = dir, log, log
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	server.WaitDelay = startTimeout
	if err := server.Start(); err != nil {
		return fmt.Errorf("start an instance: %w", err)
	}
	defer func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	}()
	if err := awaitAnswer(ctx, options.URL); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("the demo's instance did not start: %w\n%s", err, said)
	}
	if options.AdminPassword, err = account.ReadAdminPassword(filepath.Join(data, "secrets")); err != nil {
		return fmt.Errorf("the demo's instance: %w", err)
	}
	return demo.Run(ctx, options)
}

// awaitAnswer waits until a PDS answers at url.
func awaitAnswer(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !demo.Answers(ctx, url) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
	return nil
}

// freePort is a port of loopback that was free a moment ago.
func freePort(ctx context.Context) (uint16, error) {
	listener, err := listenOn(ctx, "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return netip.MustParseAddrPort(listener.Addr().String()).Port(), nil
}
