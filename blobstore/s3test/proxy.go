package s3test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Proxy stands before a Server and spoils requests on their way.
type Proxy struct {
	// Spec is the server's, by way of the proxy.
	Spec string

	mu   sync.Mutex
	seen []string // guarded by mu, as the rest
	from int      // the first request that is spoiled
	upTo int      // the first after it that is not
	how  Fault
}

// Fault is what goes wrong with a request.
type Fault string

// The faults.
const (
	Fails     Fault = "500"
	Throttled Fault = "throttled"
	CutBefore Fault = "cut before"                // the connection ends, and the server never saw the request
	Lost      Fault = "done, and the answer lost" // "failed but persisted"
	CutAnswer Fault = "answer cut in the middle"  // as Lost for an answer without a body
	Hangs     Fault = "hangs"                     // until the client goes
)

// Faults are all of them.
func Faults() []Fault { return []Fault{Fails, Throttled, CutBefore, Lost, CutAnswer, Hangs} }

// StartProxy runs a proxy before a server until the test ends. It spoils nothing
// until it is told to.
func StartProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	to, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p := &Proxy{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault, spoiled := p.meet(r); spoiled {
			fault.spoil(w, r, pass)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.Spec = strings.Replace(s.Spec, s.Endpoint, server.URL, 1)
	return p
}

// Spoil lets requests go wrong: after the next `after` ones, that many. It forgets
// what was seen.
func (p *Proxy) Spoil(how Fault, after, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.how, p.from, p.upTo = nil, how, after, after+requests
}

// Heal lets every request pass, and forgets what was seen.
func (p *Proxy) Heal() { p.Spoil("", 0, 0) }

// Seen lists the requests since Spoil or Heal, such as "PUT objects", with COPY
// and LIST for what S3 makes of PUT and GET.
func (p *Proxy) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

func (p *Proxy) meet(r *http.Request) (how Fault, spoiled bool) {
	verb, path := r.Method, strings.Split(r.URL.Path, "/")
	switch {
	case r.Header.Get("X-Amz-Copy-Source") != "":
		verb = "COPY"
	case r.URL.Query().Has("list-type"):
		verb, path = "LIST", strings.Split(r.URL.Query().Get("prefix"), "/")
	}
	place := ""
	for _, name := range path {
		if name == "objects" || name == "trash" || name == "quarantine" {
			place = " " + name
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.seen)
	p.seen = append(p.seen, verb+place)
	return p.how, p.from <= n && n < p.upTo
}

func (f Fault) spoil(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	switch f {
	case Fails:
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusInternalServerError)
	case Throttled:
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
	case Lost:
		pass.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case CutAnswer:
		cutAnswer(w, r, pass)
	case Hangs:
		_, _ = io.Copy(io.Discard, r.Body) // only then is it noticed that the client goes
		<-r.Context().Done()
	default:
		panic(http.ErrAbortHandler)
	}
}

func cutAnswer(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	whole := httptest.NewRecorder()
	pass.ServeHTTP(whole, r)
	if whole.Body.Len() == 0 { // nothing to cut, as of HEAD
		panic(http.ErrAbortHandler)
	}
	for name, values := range whole.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(whole.Body.Len()))
	w.WriteHeader(whole.Code)
	_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
