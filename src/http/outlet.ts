// The body of an answer that is written as it comes about. One of the few files that know the runtime, whose direct
// streams write to the connection as they go: no queue, and no promise for a piece.

export interface Outlet {
  /** Sends at once. A promise where the reader cannot take more: it resolves when it can. */
  readonly write: (bytes: Uint8Array) => Promise<unknown> | undefined;
  readonly end: () => void;
  /** Cuts the connection, so that what was sent does not look whole. */
  readonly cut: () => void;
}

export interface Writing {
  /** Called once, when the answer is on its way; until then nothing may be sent. */
  readonly begin: (outlet: Outlet) => void;
  /** Called when the reader has left, before the beginning or after. */
  readonly left: () => void;
}

/** The least that the runtime can be told to send at once: shorter pieces it keeps, until they are flushed. */
const SENT_AT_ONCE_BYTES = 64;

export function streamOut({ begin, left }: Writing): ReadableStream<Uint8Array> {
  let hasBegun = false;
  const source: Bun.DirectUnderlyingSource<Uint8Array> = {
    type: "direct",
    pull: (controller) => {
      if (hasBegun) return undefined;
      hasBegun = true;
      // The stream lives until this promise is resolved, and is cut where it is rejected.
      return new Promise<void>((resolve, reject) => {
        begin({
          write: (bytes) => {
            const written = controller.write(bytes);
            if (bytes.length < SENT_AT_ONCE_BYTES) void controller.flush();
            return typeof written === "number" ? undefined : written;
          },
          end: () => {
            void controller.end();
            resolve();
          },
          // Without a reason, so that nothing is printed of what is no mistake.
          cut: () => reject(),
        });
      });
    },
    cancel: left,
  };
  // The types of the browser's library, which the pages need, know of no direct streams.
  return new ReadableStream<Uint8Array>(source as unknown as UnderlyingDefaultSource<Uint8Array>, {
    highWaterMark: SENT_AT_ONCE_BYTES,
  });
}
