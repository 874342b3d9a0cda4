# Two stages: Node and npm build the executable, and only the executable goes into the image. The commands were tried
# one by one on a plain machine; the image itself has not been built in continuous integration.
FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-fund --no-audit
COPY tsconfig.json ./
COPY bin bin
COPY src src
RUN npm run build

FROM debian:bookworm-slim
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --system --uid 10001 --home-dir /data postern \
  && install -d -o postern -g postern -m 700 /data
COPY --from=build /build/dist/postern /usr/local/bin/postern
USER postern
WORKDIR /data
ENV POSTERN_HOST=0.0.0.0 POSTERN_DATA_DIR=/data BUN_CONFIG_MAX_HTTP_REQUESTS=65336 BUN_JSC_forceRAMSize=536870912
VOLUME /data
EXPOSE 8787
STOPSIGNAL SIGTERM
ENTRYPOINT ["postern"]
