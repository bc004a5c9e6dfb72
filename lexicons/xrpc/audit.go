package xrpc

import (
	"context"
	"net/http"
)

// audit tells Config.Audit of a call before it is carried out, and answers
// what is told how it ended. Calls that are not an operator's, and queries that
// were not registered with Audited, are nobody's business.
func (s *Server) audit(ctx context.Context, rt *route, call *Call, input any) (settle func(output any, err error), err error) {
	byOperator := call.Viewer.Kind == Admin || call.Viewer.Kind == Token
	if s.cfg.Audit == nil || !byOperator || rt.info.Verb == http.MethodGet && !rt.audited {
		return func(any, error) {}, nil
	}
	tell, err := s.cfg.Audit(ctx, call, input)
	if err != nil {
		return nil, err
	}
	return func(output any, err error) {
		if err == nil {
			tell(output, nil)
			return
		}
		refusal, _ := s.answer(err)
		tell(nil, refusal)
	}, nil
}
