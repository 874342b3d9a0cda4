# Two stages: Node and npm build the executable, and only the executable goes into the image. The final image has no shell.
# The release workflow passes both base images by digest; tags are the default for a local build.
ARG NODE_IMAGE=node:24-bookworm-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/base-debian12:nonroot

FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
COPY packages packages
RUN npm ci --omit=dev --no-fund --no-audit
COPY tsconfig.json CHANGELOG.md LICENSE ./
COPY bin bin
COPY src src
COPY docs/site docs/site
COPY docs/images docs/images
RUN npm run build && mkdir data

FROM ${RUNTIME_IMAGE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Postern" \
  org.opencontainers.image.description="An AI gateway that AI agents can sign up for on their own." \
  org.opencontainers.image.source="https://github.com/postern-gateway/postern" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
COPY --from=build /build/dist/postern /usr/local/bin/postern
COPY --from=build --chown=65532:65532 /build/data /data
USER 65532:65532
WORKDIR /data
ENV POSTERN_HOST=0.0.0.0 POSTERN_DATA_DIR=/data BUN_CONFIG_MAX_HTTP_REQUESTS=65336 BUN_JSC_forceRAMSize=536870912 \
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL=2000
VOLUME /data
EXPOSE 8787
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["postern", "healthcheck"]
ENTRYPOINT ["postern"]
