// Serves the events of a streamed background response: from memory in the process that runs it, from the store elsewhere and
// after the end. A client that loses the connection continues with `starting_after`.

import { Fault } from "../../base/fault.ts";
import { type ResponseSink, streamResponse } from "../../http/response-stream.ts";
import { type EventBatch, toSse } from "./event-log.ts";

const KEEP_ALIVE_MS = 15_000;
const STREAMS_PER_ACCOUNT_MAX = 32;
const STREAMS_MAX = 512;
const RETRY_SECONDS = 5;
/** Written at once; more events wait until the client has read these. */
const WRITE_EVENTS_MAX = 100;

/** Where the events of a response come from. */
export interface EventSource {
  readonly read: (from: number) => Promise<EventBatch> | EventBatch;
  readonly waitForMore: (from: number, maxMs: number) => Promise<void>;
}

export interface EventStreams {
  /**
   * A response with the events after `startingAfter`; -1 for all. Throws if the account cannot open another stream. Cancel the
   * body of a response that is not sent.
   */
  readonly open: (accountId: string, source: EventSource, startingAfter: number) => Response;
  /** Ends all streams: their clients continue at another process. */
  readonly endAll: () => void;
}

export function createEventStreams(): EventStreams {
  const open = new Map<string, number>();
  let total = 0;
  let isEnding = false;
  const change = (accountId: string, by: number): void => {
    total += by;
    const count = (open.get(accountId) ?? 0) + by;
    if (count === 0) open.delete(accountId);
    else open.set(accountId, count);
  };
  return {
    open: (accountId, source, startingAfter) => {
      rejectOverLimit(total, open.get(accountId) ?? 0);
      let isGone = false;
      let hasStarted = false;
      change(accountId, 1);
      const body = streamResponse({
        onStart: (sink) => {
          hasStarted = true;
          void pump(source, sink, { from: startingAfter + 1, isOver: () => isGone || isEnding })
            .catch(() => sink.functions.abort(sink))
            .finally(() => change(accountId, -1));
        },
        onClientGone: () => {
          isGone = true;
          if (!hasStarted) change(accountId, -1);
        },
      });
      return new Response(body, {
        headers: {
          "content-type": "text/event-stream; charset=utf-8",
          "cache-control": "no-store",
          "x-accel-buffering": "no",
        },
      });
    },
    endAll: () => {
      isEnding = true;
    },
  };
}

function rejectOverLimit(total: number, ofAccount: number): void {
  if (total < STREAMS_MAX && ofAccount < STREAMS_PER_ACCOUNT_MAX) return;
  throw new Fault("rate_limited", "too many open streams of background responses", {
    message: `This account reads ${ofAccount} background responses as streams. Close some, or poll GET /v1/responses/{id} without \`stream\`.`,
    retryAfterSeconds: RETRY_SECONDS,
  });
}

interface PumpOptions {
  readonly from: number;
  readonly isOver: () => boolean;
}

const encoder = new TextEncoder();
const KEEP_ALIVE = encoder.encode(": keep-alive\n\n");

async function pump(
  source: EventSource,
  sink: ResponseSink,
  { from, isOver }: PumpOptions,
): Promise<void> {
  let next = from;
  // The headers are sent with the first bytes.
  void sink.functions.write(sink, KEEP_ALIVE);
  let sentAt = performance.now();
  while (!isOver()) {
    const { events, isEnd } = await source.read(next);
    const batch = events.slice(0, WRITE_EVENTS_MAX);
    next += batch.length;
    if (batch.length > 0) {
      sentAt = performance.now();
      await sink.functions.write(sink, encoder.encode(batch.map(toSse).join("")));
    } else if (isEnd) break;
    else if (performance.now() - sentAt >= KEEP_ALIVE_MS) {
      sentAt = performance.now();
      await sink.functions.write(sink, KEEP_ALIVE);
    }
    if (events.length === 0) await source.waitForMore(next, KEEP_ALIVE_MS);
  }
  sink.functions.end(sink);
}
