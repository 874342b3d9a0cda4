// A provider's reply, wherever it came from.

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
  pauseBodyStream,
  push,
  resumeBodyStream,
} from "./body-stream.ts";

export interface UpstreamResponse {
  readonly status: number;
  /** By their names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: BodyStream;
}

/** The reply that the runtime's own client, or something in this process, has given. */
export function fromFetchResponse(response: Response): UpstreamResponse {
  const headers = new Map(response.headers);
  // The runtime has unpacked the body, and left the headers of the packed one.
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

/** The reply with its body unpacked: some pack what was asked for as it is. */
export function decompressed(reply: UpstreamResponse): UpstreamResponse {
  const coding = reply.headers.get("content-encoding")?.toLowerCase();
  if (coding === undefined || coding === "identity" || hasNoBody(reply)) return reply;
  const createDecompressor = DECOMPRESSORS.get(coding);
  if (createDecompressor === undefined) {
    cancelBodyStream(reply.body);
    throw new Error(`the reply is packed as ${coding}`);
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
  decompressor.on("data", (bytes: Buffer) => push(stream, bytes));
  decompressor.on("end", () => endBodyStream(stream, true));
  decompressor.on("error", () => {
    cancelBodyStream(compressed);
    endBodyStream(stream, false);
  });
  decompressor.on("drain", () => resumeBodyStream(compressed));
  let hasData = false;
  pipeTo(compressed, {
    onData: (bytes) => {
      hasData = true;
      if (!decompressor.write(bytes)) pauseBodyStream(compressed);
    },
    onEnd: (whole) => {
      if (!whole) decompressor.destroy(new Error("the reply was cut"));
      else if (hasData) decompressor.end();
      else endBodyStream(stream, true);
    },
  });
  return stream;
}
