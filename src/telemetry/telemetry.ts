// Tells a collector of each model call. A call never waits for it: spans are gathered, sent in batches, kept for a while
// where the collector is away, and let go of and counted where that lasts.

import type { Log } from "../base/log.ts";
import { exportText, type Resource } from "./otlp.ts";
import { type Destination, PAUSE_MAX_MS, send } from "./send.ts";
import { type CallTold, readTraceParent, type Span, spanOf } from "./span.ts";

export interface TelemetryParts extends Destination {
  readonly joinsTraces: boolean;
  readonly resource: Resource;
  readonly log: Log;
  /** Shorter for tests. */
  readonly lastWithinMs?: number;
}

export interface Telemetry {
  readonly tell: (call: Omit<CallTold, "parent">, headers: Headers) => void;
  /** Sends what there is, unless the collector was away a moment ago. */
  readonly flush: () => Promise<void>;
  /** Sends what there is once more, and waits for no more than two seconds. */
  readonly stop: () => Promise<void>;
  readonly counts: () => { readonly sent: number; readonly dropped: number };
}

const BATCH_SPANS = 512;
/** Some three megabytes. */
const QUEUE_SPANS = 4_096;
const ANSWER_WITHIN_MS = 10_000;
const LAST_WITHIN_MS = 2_000;
const PAUSE_FIRST_MS = 1_000;

export function createTelemetry(parts: TelemetryParts): Telemetry {
  const queue: Span[] = [];
  const counts = { sent: 0, dropped: 0 };
  let sending: Promise<void> | undefined;
  const pause = createPause();
  const trouble = createTrouble(parts);
  const { lastWithinMs = LAST_WITHIN_MS } = parts;

  const sendAll = async (withinMs: number): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.slice(0, BATCH_SPANS);
      const sent = await send(parts, exportText(parts.resource, batch), withinMs);
      if (sent.kind === "later") {
        trouble.begins(sent.why);
        pause.begin(sent.waitMs);
        return;
      }
      pause.end();
      queue.splice(0, batch.length);
      const rejected = sent.kind === "taken" ? Math.min(sent.rejected, batch.length) : batch.length;
      counts.sent += batch.length - rejected;
      counts.dropped += rejected;
      if (sent.kind === "never") {
        trouble.begins(sent.why);
        return;
      }
      trouble.ends();
    }
  };
  const flushWithin = (withinMs: number): Promise<void> => {
    sending ??= sendAll(withinMs).finally(() => {
      sending = undefined;
    });
    return sending;
  };
  const flush = async (): Promise<void> => {
    if (pause.isOver()) await flushWithin(ANSWER_WITHIN_MS);
  };
  return {
    tell: (call, headers) => {
      const parent = parts.joinsTraces ? readTraceParent(headers.get("traceparent")) : undefined;
      if (parent?.isSampled === false) return;
      if (queue.length >= QUEUE_SPANS) {
        counts.dropped++;
        return;
      }
      queue.push(spanOf({ ...call, parent }));
      if (queue.length >= BATCH_SPANS && sending === undefined) void flush();
    },
    flush,
    stop: async () => {
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, lastWithinMs);
      await Promise.race([
        lastWords(
          () => sending,
          () => flushWithin(lastWithinMs),
        ),
        late.promise,
      ]);
      clearTimeout(timer);
      counts.dropped += queue.length;
    },
    counts: () => counts,
  };
}

// What is being sent may have begun before the last calls ended.
async function lastWords(
  underWay: () => Promise<void> | undefined,
  flush: () => Promise<void>,
): Promise<void> {
  await underWay();
  await flush();
}

// Each pause is twice as long as the one before, unless the collector says how long.
function createPause(): {
  readonly begin: (askedMs: number | undefined) => void;
  readonly end: () => void;
  readonly isOver: () => boolean;
} {
  let lengthMs = 0;
  let until = 0;
  return {
    begin: (askedMs) => {
      lengthMs = Math.min(PAUSE_MAX_MS, Math.max(PAUSE_FIRST_MS, lengthMs * 2));
      until = performance.now() + (askedMs ?? lengthMs);
    },
    end: () => {
      lengthMs = 0;
    },
    isOver: () => performance.now() >= until,
  };
}

// The log is told once of a trouble that lasts.
function createTrouble({ url, log }: TelemetryParts): {
  readonly begins: (detail: string) => void;
  readonly ends: () => void;
} {
  let isTold = false;
  return {
    begins: (detail) => {
      if (!isTold)
        log.warn("a collector does not take spans", { collector: new URL(url).host, detail });
      isTold = true;
    },
    ends: () => {
      isTold = false;
    },
  };
}
