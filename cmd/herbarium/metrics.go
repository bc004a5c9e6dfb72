package main

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"herbarium.garden/lexicons/xrpc"
)

// metrics is what Prometheus scrapes, on a listener of its own. No label ever
// comes from a client, so their number is bounded by the routes.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	sent     *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "herbarium_request_duration_seconds",
			Help:    "Time from the request's head to the end of the answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
		}, []string{"route", "verb", "status"}),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "herbarium_response_bytes_total",
			Help: "Bytes of response bodies.",
		}, []string{"route"}),
	}
	m.registry.MustRegister(m.requests, m.sent,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observe takes in a finished request.
func (m *metrics) observe(o xrpc.Observation) {
	m.requests.WithLabelValues(o.Route, o.Verb, strconv.Itoa(o.Status)).Observe(o.Duration.Seconds())
	m.sent.WithLabelValues(o.Route).Add(float64(o.Sent))
}

// gauge adds a value that is read when it is scraped.
func (m *metrics) gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}
