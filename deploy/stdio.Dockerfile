# The gateway with Node and the stdio servers that it starts, built on the image of the Dockerfile: add yours, installed when
# the image is built, for the root is read-only and nothing is fetched when a pod starts.
#
#   docker build -t plasm-mcp:0.1.0 .
#   docker build -t plasm-mcp-stdio:0.1.0 -f deploy/stdio.Dockerfile deploy
#
# upstreams:
#   memory:
#     command: node
#     args: [/servers/node_modules/@modelcontextprotocol/server-memory/dist/index.js]
#     env: { MEMORY_FILE_PATH: /tmp/memory.json }    # the chart's writableTmp

ARG GATEWAY=plasm-mcp:0.1.0

FROM node:22-bookworm-slim AS servers
WORKDIR /servers
RUN npm install --omit=dev --ignore-scripts --no-audit --no-fund \
    @modelcontextprotocol/server-memory@2026.8.31 @modelcontextprotocol/server-everything@2026.8.31

FROM ${GATEWAY}
COPY --from=servers /usr/local/bin/node /usr/local/bin/node
COPY --from=servers /servers /servers
