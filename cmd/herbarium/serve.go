package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run the PDS and the appview",
		Flags: configFlags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			cfg, err := configure(c)
			if err != nil {
				return err
			}
			log := logger(cfg)
			s, err := assemble(ctx, cfg, log)
			if err != nil {
				return err
			}
			return errors.Join(s.run(ctx), s.close())
		},
	}
}

// run serves until ctx ends or a part fails. Then the listeners close and
// running requests finish, up to the configured time; only after that the parts
// that they stand on end, in one group like the listeners.
func (s *service) run(ctx context.Context) error {
	// Before anybody can ask: the last run may have ended between a takedown and
	// the index's hearing of it.
	if err := s.host.SyncTakedowns(ctx); err != nil {
		return err
	}
	// Before anything is judged: by which lexicons, and by whose rules.
	if err := errors.Join(s.host.SyncLexicons(ctx), s.index.Adopt(ctx)); err != nil {
		return err
	}
	if err := s.index.SeedTrustGroups(ctx, trustGroups(s.cfg)); err != nil {
		return err
	}
	listener, err := listenOn(ctx, s.cfg.Listen)
	if err != nil {
		return err
	}
	var scraped net.Listener
	if s.cfg.MetricsListen != "" {
		if scraped, err = listenOn(ctx, s.cfg.MetricsListen); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	parts, stopParts := context.WithCancel(context.WithoutCancel(ctx))
	defer stopParts()
	group, running := errgroup.WithContext(ctx)
	for name, part := range s.parts() {
		group.Go(func() error {
			if err := part(parts); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	drained := []<-chan struct{}{s.listen(running, group, "server", listener, s.api)}
	if scraped != nil {
		drained = append(drained, s.listen(running, group, "metrics", scraped, s.metrics.handler()))
	}
	group.Go(func() error {
		for _, done := range drained {
			<-done
		}
		stopParts()
		return nil
	})
	s.log.Info("serving", "listen", s.cfg.Listen, "url", s.cfg.PublicURL.String(), "did", s.cfg.ServiceDID, "visibility", s.cfg.Visibility, "version", buildVersion())
	err = group.Wait()
	s.log.Info("stopped")
	return err
}

func listenOn(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return patient(listener)
}

// Limits of every HTTP connection. The pace of a body is bounded where it is
// read (xrpc.Config.BodyGrace), that of an answer by patientConn.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
)

// listen serves handler until running ends. The answer is closed when no
// request is left.
func (s *service) listen(running context.Context, group *errgroup.Group, name string, listener net.Listener, handler http.Handler) <-chan struct{} {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	drained := make(chan struct{})
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	group.Go(func() error {
		defer close(drained)
		<-running.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(running), s.cfg.ShutdownTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			s.log.Warn("requests were cut off", "listener", name, "err", err)
			return server.Close()
		}
		return nil
	})
	return drained
}

// dialable is an address to reach a listener at from this machine.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// every runs job at once and then each period, until ctx ends. A failure is
// logged and tried again the next time.
func every(log *slog.Logger, period time.Duration, name string, job func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			if err := job(ctx); err != nil && ctx.Err() == nil {
				log.Error("job failed", "job", name, "err", err)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	}
}
