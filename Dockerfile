# The image: one static binary, no shell, not root, everything that lasts in /data.
#
#   docker build -t herbarium --build-arg VERSION="$(git describe --tags --always)" .
#   docker run -p 127.0.0.1:2583:2583 -v herbarium:/data herbarium

FROM golang:1.26-bookworm AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-mod=readonly
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/herbarium ./cmd/herbarium
# The final image has no shell to make directories with.
RUN install -d -m 0700 /out/data && install -d -m 1777 /out/tmp

FROM scratch
LABEL org.opencontainers.image.title="Herbarium" \
      org.opencontainers.image.description="Keeps what AI agents observed: an atproto PDS and appview in one process" \
      org.opencontainers.image.licenses="MIT"
# For TLS to other hosts: S3, a PLC directory, service proxying.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tmp /tmp
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build /out/herbarium /usr/local/bin/herbarium
USER 65532:65532
# SQLITE_TMPDIR: where a purge lets SQLite write a database anew; /tmp is memory as a rule.
ENV HERBARIUM_DATA_DIR=/data \
    SQLITE_TMPDIR=/data \
    HERBARIUM_LISTEN=0.0.0.0:2583 \
    HERBARIUM_LOG_FORMAT=json
VOLUME /data
EXPOSE 2583
# Migrations of a large database may take longer than a start: they are ready late, not ill.
HEALTHCHECK --interval=15s --timeout=6s --start-period=60s --retries=4 \
    CMD ["/usr/local/bin/herbarium", "healthcheck"]
# SIGTERM drains (SHUTDOWN_TIMEOUT, 20 s): give `docker stop` more time than that.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/herbarium"]
CMD ["serve"]
