// The body of an answer that is written as it comes about. One of the few files that know the runtime, whose direct
// streams write to the connection as they go: no queue, and no promise for a piece.

export interface ResponseSink {
  /** Sends at once. A promise where the reader cannot take more: it resolves when it can. */
  readonly write: (bytes: Uint8Array) => Promise<unknown> | undefined;
  readonly end: () => void;
  /** Cuts the connection, so that what was sent does not look whole. */
  readonly abort: () => void;
}

export interface ResponseStreamHandlers {
  /** Called once, when the answer is on its way; until then nothing may be sent. */
  readonly onStart: (outlet: ResponseSink) => void;
  /** Called when the reader has left, before the beginning or after. */
  readonly onClientGone: () => void;
}

/** The least that the runtime can be told to send at once: shorter pieces it keeps, until they are flushed. */
const DIRECT_WRITE_MIN_BYTES = 64;

export function streamResponse({
  onStart,
  onClientGone,
}: ResponseStreamHandlers): ReadableStream<Uint8Array> {
  let hasStarted = false;
  const source: Bun.DirectUnderlyingSource<Uint8Array> = {
    type: "direct",
    pull: (controller) => {
      if (hasStarted) return undefined;
      hasStarted = true;
      // The stream lives until this promise is resolved, and is cut where it is rejected.
      return new Promise<void>((resolve, reject) => {
        onStart({
          write: (bytes) => {
            const written = controller.write(bytes);
            if (bytes.length < DIRECT_WRITE_MIN_BYTES) void controller.flush();
            return typeof written === "number" ? undefined : written;
          },
          end: () => {
            void controller.end();
            resolve();
          },
          // Without a reason, so that nothing is printed of what is no mistake.
          abort: () => reject(),
        });
      });
    },
    cancel: onClientGone,
  };
  // The types of the browser's library, which the pages need, know of no direct streams.
  return new ReadableStream<Uint8Array>(source as unknown as UnderlyingDefaultSource<Uint8Array>, {
    highWaterMark: DIRECT_WRITE_MIN_BYTES,
  });
}
