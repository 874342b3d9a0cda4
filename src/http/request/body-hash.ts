// The hash of a request's body, which a signed request states, also of a body that is read as it arrives.

import { createHash } from "node:crypto";

export interface BodyHash {
  readonly length: number;
  readonly sha256: Buffer;
}

export function hashOfBody(bytes: Uint8Array): BodyHash {
  return { length: bytes.length, sha256: createHash("sha256").update(bytes).digest() };
}

/** The same request. Reading its body to the end fails with what `check` throws. */
export function withCheckedBody(request: Request, check: (body: BodyHash) => void): Request {
  if (request.body === null) return request;
  const hash = createHash("sha256");
  let length = 0;
  const body = request.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (bytes, controller) => {
        hash.update(bytes);
        length += bytes.length;
        controller.enqueue(bytes);
      },
      flush: () => check({ length, sha256: hash.digest() }),
    }),
  );
  return new Request(request, { method: request.method, body });
}
