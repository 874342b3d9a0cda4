// A response body that is written while it is produced. Uses Bun's direct streams, which write to the connection without
// a queue and without a promise per chunk.

export interface ResponseSink {
  /** Sends immediately. Under backpressure, returns a promise that resolves when the client reads again. */
  readonly write: (bytes: Uint8Array) => Promise<unknown> | undefined;
  readonly end: () => void;
  /** Closes the connection, so that the client sees a truncated response. */
  readonly abort: () => void;
}

export interface ResponseStreamHandlers {
  /** Called once, when the headers are sent; nothing can be written before. */
  readonly onStart: (sink: ResponseSink) => void;
  /** Called when the client disconnects, possibly before `onStart`. */
  readonly onClientGone: () => void;
}

const handlersOf = new WeakMap<ReadableStream, ResponseStreamHandlers>();

/**
 * The handlers of a stream that nothing reads, to write it to another sink than an HTTP connection: reading it would hide
 * from its producer how fast the client reads.
 */
export function takeStreamHandlers(
  body: ReadableStream<Uint8Array>,
): ResponseStreamHandlers | undefined {
  return handlersOf.get(body);
}

/** Bun's smallest high-water mark: shorter chunks are buffered until they are flushed. */
const DIRECT_WRITE_MIN_BYTES = 64;

export function streamResponse(handlers: ResponseStreamHandlers): ReadableStream<Uint8Array> {
  const { onStart, onClientGone } = handlers;
  let hasStarted = false;
  const source: Bun.DirectUnderlyingSource<Uint8Array> = {
    type: "direct",
    pull: (controller) => {
      if (hasStarted) return undefined;
      hasStarted = true;
      // The stream ends when this promise resolves, and is truncated if it rejects.
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
          // No reason: Bun would print it.
          abort: () => reject(),
        });
        // Flushed within `pull`, what was written leaves in one packet with the headers.
        void controller.flush();
      });
    },
    cancel: onClientGone,
  };
  // lib.dom.d.ts has no type for direct streams.
  const stream = new ReadableStream<Uint8Array>(
    source as unknown as UnderlyingDefaultSource<Uint8Array>,
    { highWaterMark: DIRECT_WRITE_MIN_BYTES },
  );
  handlersOf.set(stream, handlers);
  return stream;
}
