// HTTP/1.1 client for long-lived streams: it reuses connections, decompresses replies and lets the reader of a body pause it.
// This file is everything that other code may import. Examples are in README.md, and run as tests.

/** Sends POST requests over its own pool: `const { send, close } = createHttpClient()`. */
export { createHttpClient, type HttpClient } from "./src/create-http-client.ts";
/** Sends with `fetch`, which uses the proxy settings of the environment: `await sendByFetch(request)`. */
export { sendByFetch, type OutgoingRequest, type Send } from "./src/create-http-client.ts";
/** Adapts a response of `fetch`, or of a handler in this process: `fromFetchResponse(new Response("ok"))`. */
export { fromFetchResponse, type UpstreamResponse } from "./src/reply.ts";

/** Cancels a request: `const { signal, abort } = createAbort()`; costs less than an `AbortController`. */
export { createAbort, type Abort, type AbortSignalLike } from "./src/abort.ts";
/** The signal as a real `AbortSignal`, for functions of the runtime: `fetch(url, { signal: toAbortSignal(signal) })`. */
export { toAbortSignal } from "./src/abort.ts";

/** The next chunk of a body, or undefined at its end: `await nextChunk(response.body)`. */
export { nextChunk, type BodyStream } from "./src/body-stream.ts";
/** The whole body if it has arrived already: `takeIfComplete(response.body, 65_536)`. */
export { takeIfComplete } from "./src/body-stream.ts";
/** Ends a pending `nextChunk` and keeps the chunk for the next reader: `cancelRead(body)`. */
export { cancelRead } from "./src/body-stream.ts";
/** Makes a chunk that was read the next one again: `putBack(body, chunk)`. */
export { putBack } from "./src/body-stream.ts";
/** Sends every chunk to a handler: `pipeTo(body, { onData: write, onEnd: close })`. */
export { pipeTo, type BodyHandler } from "./src/body-stream.ts";
/** Pauses, resumes, discards or cancels a piped body: `setFlow(body, "paused")`. */
export { setFlow, type Flow } from "./src/body-stream.ts";
/** Closes the connection of a body that is not needed: `cancelBodyStream(body)`. */
export { cancelBodyStream } from "./src/body-stream.ts";
/** A body with another source than a connection: `createBodyStream({ pause, resume, cancel })`. */
export { createBodyStream, type FlowControl } from "./src/body-stream.ts";
/** Adds a chunk to a body, or ends it: `pushChunk(body, bytes); endBodyStream(body, true)`. */
export { endBodyStream, pushChunk } from "./src/body-stream.ts";
