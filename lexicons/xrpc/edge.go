package xrpc

import (
	"context"
	"errors"
	"net/netip"

	"github.com/labstack/echo/v4"
)

var errNotYet = errors.New("xrpc: not built yet")

func methodNotImplemented(_ context.Context, call *Call) error {
	return Errorf(501, "MethodNotImplemented", "the method %s is not implemented here", call.NSID)
}

func extractor(trusted []netip.Prefix) echo.IPExtractor { return echo.ExtractIPDirect() }

func (s *Server) edge(next echo.HandlerFunc) echo.HandlerFunc { return next }

func (s *Server) dispatch(c echo.Context) error { return errNotYet }

func (s *Server) serve(c echo.Context, rt *route) error { return errNotYet }
