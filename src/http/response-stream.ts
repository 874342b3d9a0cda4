// A response body that is written while it is produced. Uses Bun's direct streams, which write to the connection without
// a queue and without a promise per chunk.

/** Where a response is written. Its functions exist once for all sinks of a kind, and receive the sink. */
export interface ResponseSink {
  readonly functions: SinkFunctions<unknown>;
}

export interface SinkFunctions<Sink> {
  /** Sends immediately. Under backpressure, returns a promise that resolves when the client reads again. */
  write(sink: Sink, bytes: Uint8Array): Promise<unknown> | undefined;
  end(sink: Sink): void;
  /** Closes the connection, so that the client sees a truncated response. */
  abort(sink: Sink): void;
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

interface DirectSink extends ResponseSink {
  readonly controller: Parameters<NonNullable<Bun.DirectUnderlyingSource<Uint8Array>["pull"]>>[0];
  readonly resolve: () => void;
  readonly reject: () => void;
}

const DIRECT_SINK: SinkFunctions<DirectSink> = {
  write: ({ controller }, bytes) => {
    const written = controller.write(bytes);
    if (bytes.length < DIRECT_WRITE_MIN_BYTES) void controller.flush();
    return typeof written === "number" ? undefined : written;
  },
  end: ({ controller, resolve }) => {
    void controller.end();
    resolve();
  },
  // No reason: Bun would print it.
  abort: ({ reject }) => reject(),
};

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
        const sink: DirectSink = { functions: DIRECT_SINK, controller, resolve, reject };
        onStart(sink);
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
