// A provider's reply, wherever it came from.

import type { Transform } from "node:stream";
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib";
import {
  cancelInflow,
  createInflow,
  endInflow,
  flowTo,
  type Inflow,
  inflowOf,
  pauseInflow,
  pour,
  resumeInflow,
} from "./inflow.ts";

export interface Reply {
  readonly status: number;
  /** By their names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Inflow;
}

/** The reply that the runtime's own client, or something in this process, has given. */
export function replyOfResponse(response: Response): Reply {
  const headers = new Map(response.headers);
  // The runtime has unpacked the body, and left the headers of the packed one.
  if (headers.delete("content-encoding")) headers.delete("content-length");
  return { status: response.status, headers, body: inflowOf(response.body) };
}

const UNPACKERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ["gzip", () => createGunzip()],
  ["x-gzip", () => createGunzip()],
  ["deflate", () => createInflate()],
  ["br", () => createBrotliDecompress()],
  ["zstd", () => createZstdDecompress()],
]);

/** The reply with its body unpacked: some pack what was asked for as it is. */
export function unpacked(reply: Reply): Reply {
  const coding = reply.headers.get("content-encoding")?.toLowerCase();
  if (coding === undefined || coding === "identity" || isEmpty(reply)) return reply;
  const createUnpacker = UNPACKERS.get(coding);
  if (createUnpacker === undefined) {
    cancelInflow(reply.body);
    throw new Error(`the reply is packed as ${coding}`);
  }
  const headers = new Map(reply.headers);
  headers.delete("content-encoding");
  headers.delete("content-length");
  return { ...reply, headers, body: through(createUnpacker(), reply.body) };
}

function isEmpty({ status, headers }: Reply): boolean {
  return status === 204 || status === 304 || headers.get("content-length") === "0";
}

function through(unpacker: Transform, packed: Inflow): Inflow {
  const inflow = createInflow({
    pause: () => unpacker.pause(),
    resume: () => unpacker.resume(),
    hangUp: () => {
      cancelInflow(packed);
      unpacker.destroy();
    },
  });
  unpacker.on("data", (bytes: Buffer) => pour(inflow, bytes));
  unpacker.on("end", () => endInflow(inflow, true));
  unpacker.on("error", () => {
    cancelInflow(packed);
    endInflow(inflow, false);
  });
  unpacker.on("drain", () => resumeInflow(packed));
  let isBegun = false;
  flowTo(packed, {
    piece: (bytes) => {
      isBegun = true;
      if (!unpacker.write(bytes)) pauseInflow(packed);
    },
    end: (whole) => {
      if (!whole) unpacker.destroy(new Error("the reply was cut"));
      else if (isBegun) unpacker.end();
      else endInflow(inflow, true);
    },
  });
  return inflow;
}
