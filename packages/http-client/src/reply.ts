// A provider's reply, from our own client or from `fetch`.

import type { Transform } from "node:stream";
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib";
import {
  cancelBodyStream,
  createBodyStream,
  endBodyStream,
  pipeTo,
  type BodyStream,
  bodyStreamFrom,
  pushChunk,
  setFlow,
  TRUNCATED,
} from "./body-stream.ts";

export interface UpstreamResponse {
  readonly status: number;
  /** By lowercase name. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: BodyStream;
}

/** Adapts a response of `fetch`, or of a handler in this process. */
export function fromFetchResponse(response: Response): UpstreamResponse {
  const headers = new Map(response.headers);
  // `fetch` decompresses the body but keeps the headers of the compressed one.
  if (headers.delete("content-encoding")) headers.delete("content-length");
  return { status: response.status, headers, body: bodyStreamFrom(response.body) };
}

const DECOMPRESSORS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ["gzip", () => createGunzip()],
  ["x-gzip", () => createGunzip()],
  ["deflate", () => createInflate()],
  ["br", () => createBrotliDecompress()],
  ["zstd", () => createZstdDecompress()],
]);

/** Decompresses the body: some providers compress even if not asked to. */
export function decompressed(reply: UpstreamResponse): UpstreamResponse {
  const coding = reply.headers.get("content-encoding")?.toLowerCase();
  if (coding === undefined || coding === "identity" || hasNoBody(reply)) return reply;
  const createDecompressor = DECOMPRESSORS.get(coding);
  if (createDecompressor === undefined) {
    cancelBodyStream(reply.body);
    throw new Error(`unsupported content-encoding ${coding}`);
  }
  const headers = new Map(reply.headers);
  headers.delete("content-encoding");
  headers.delete("content-length");
  return { ...reply, headers, body: decompressBody(createDecompressor(), reply.body) };
}

function hasNoBody({ status, headers }: UpstreamResponse): boolean {
  return status === 204 || status === 304 || headers.get("content-length") === "0";
}

function decompressBody(decompressor: Transform, compressed: BodyStream): BodyStream {
  const stream = createBodyStream({
    pause: () => decompressor.pause(),
    resume: () => decompressor.resume(),
    cancel: () => {
      cancelBodyStream(compressed);
      decompressor.destroy();
    },
  });
  decompressor.on("data", (bytes: Buffer) => pushChunk(stream, bytes));
  decompressor.on("end", () => endBodyStream(stream, true));
  decompressor.on("error", () => {
    cancelBodyStream(compressed);
    endBodyStream(stream, false);
  });
  decompressor.on("drain", () => setFlow(compressed, "read"));
  let hasData = false;
  pipeTo(compressed, {
    onData: (bytes) => {
      hasData = true;
      if (!decompressor.write(bytes)) setFlow(compressed, "paused");
    },
    onEnd: (isComplete) => {
      if (!isComplete) decompressor.destroy(new Error(TRUNCATED));
      else if (hasData) decompressor.end();
      else endBodyStream(stream, true);
    },
  });
  return stream;
}
