# The gateway for HTTP upstreams: one binary, no shell, no package manager. An image that also starts stdio servers is
# built on it: deploy/stdio.Dockerfile.
#
#   docker build -t plasm-mcp:0.1.0 .
#   docker run --read-only --cap-drop ALL -v "$PWD/config.yaml:/etc/plasm-mcp/config.yaml:ro" -p 8080:8080 plasm-mcp:0.1.0 \
#     serve --config /etc/plasm-mcp/config.yaml
#
# scripts/image-check reads this file, and starts what it makes, without an engine.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
COPY . .
# `release`, or another profile of Cargo.toml.
ARG PROFILE=release
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/build/target \
    cargo build --locked --bin plasm-mcp --profile "$PROFILE" --target-dir target && \
    install -D -m 0755 "target/$(test "$PROFILE" = dev && echo debug || echo "$PROFILE")/plasm-mcp" /out/plasm-mcp

# glibc, libgcc, certificates of authorities, time zones and a user without rights; the same Debian as above.
FROM gcr.io/distroless/cc-debian12
COPY --from=build /out/plasm-mcp /usr/local/bin/plasm-mcp
# Catalogs to name in `catalogs.files`; nothing is served of them by itself.
COPY --from=build /build/catalogs /usr/local/share/plasm-mcp/catalogs
USER 65532:65532
# MCP, and probes with metrics.
EXPOSE 8080 9090
# Asks the admin port on this machine's loopback; Kubernetes has probes of its own.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["plasm-mcp", "health"]
ENTRYPOINT ["plasm-mcp"]
CMD ["serve"]
