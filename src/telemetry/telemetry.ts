// Sends a span of each model call to an OTLP collector, in batches and without delaying calls. While the collector is
// unavailable, spans are queued; above the queue limit they are dropped and counted.

import type { Log } from "../base/log.ts";
import { parseTraceParent } from "../base/network/trace-parent.ts";
import { type OtlpEndpoint, BACKOFF_MAX_MS, exportSpans } from "./otlp-export.ts";
import { otlpJson, type Resource } from "./otlp.ts";
import { type CallTrace, type Span, spanOf } from "./span.ts";

export interface TelemetryOptions extends OtlpEndpoint {
  readonly shouldContinueTraces: boolean;
  readonly resource: Resource;
  readonly log: Log;
  /** Overridden by tests. */
  readonly shutdownTimeoutMs?: number;
}

export interface Telemetry {
  readonly recordCall: (call: Omit<CallTrace, "parent">, headers: Headers) => void;
  /** Sends queued spans, except during a backoff. */
  readonly flush: () => Promise<void>;
  /** Sends queued spans, for up to two seconds. */
  readonly shutdown: () => Promise<void>;
  readonly counts: () => { readonly sent: number; readonly dropped: number };
}

const BATCH_MAX_SPANS = 512;
/** About 3 MB. */
const QUEUE_MAX_SPANS = 4_096;
const EXPORT_TIMEOUT_MS = 10_000;
const SHUTDOWN_TIMEOUT_MS = 2_000;
const BACKOFF_FIRST_MS = 1_000;

export function createTelemetry(options: TelemetryOptions): Telemetry {
  const queue: Span[] = [];
  const counts = { sent: 0, dropped: 0 };
  let sending: Promise<void> | undefined;
  const backoff = createBackoff();
  const outageLog = createOutageLog(options);
  const { shutdownTimeoutMs = SHUTDOWN_TIMEOUT_MS } = options;

  const sendAll = async (timeoutMs: number): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.slice(0, BATCH_MAX_SPANS);
      const result = await exportSpans(options, otlpJson(options.resource, batch), timeoutMs);
      if (result.kind === "retryable") {
        outageLog.onFailure(result.reason);
        backoff.start(result.retryAfterMs);
        return;
      }
      backoff.reset();
      queue.splice(0, batch.length);
      const rejected =
        result.kind === "accepted" ? Math.min(result.rejectedSpans, batch.length) : batch.length;
      counts.sent += batch.length - rejected;
      counts.dropped += rejected;
      if (result.kind === "rejected") {
        outageLog.onFailure(result.reason);
        return;
      }
      outageLog.onSuccess();
    }
  };
  const flushWithin = (timeoutMs: number): Promise<void> => {
    sending ??= sendAll(timeoutMs).finally(() => {
      sending = undefined;
    });
    return sending;
  };
  const flush = async (): Promise<void> => {
    if (backoff.isElapsed()) await flushWithin(EXPORT_TIMEOUT_MS);
  };
  return {
    recordCall: (call, headers) => {
      const parent = options.shouldContinueTraces
        ? parseTraceParent(headers.get("traceparent"))
        : undefined;
      if (parent?.isSampled === false) return;
      if (queue.length >= QUEUE_MAX_SPANS) {
        counts.dropped++;
        return;
      }
      queue.push(spanOf({ ...call, parent }));
      if (queue.length >= BATCH_MAX_SPANS && sending === undefined) void flush();
    },
    flush,
    shutdown: async () => {
      const timedOut = Promise.withResolvers<void>();
      const timer = setTimeout(timedOut.resolve, shutdownTimeoutMs);
      await Promise.race([
        finalFlush(
          () => sending,
          () => flushWithin(shutdownTimeoutMs),
        ),
        timedOut.promise,
      ]);
      clearTimeout(timer);
      counts.dropped += queue.length;
    },
    counts: () => counts,
  };
}

// An export in flight may not include the last spans.
async function finalFlush(
  inFlight: () => Promise<void> | undefined,
  flush: () => Promise<void>,
): Promise<void> {
  await inFlight();
  await flush();
}

// Exponential backoff, unless the collector sends `retry-after`.
function createBackoff(): {
  readonly start: (retryAfterMs: number | undefined) => void;
  readonly reset: () => void;
  readonly isElapsed: () => boolean;
} {
  let delayMs = 0;
  let until = 0;
  return {
    start: (retryAfterMs) => {
      delayMs = Math.min(BACKOFF_MAX_MS, Math.max(BACKOFF_FIRST_MS, delayMs * 2));
      until = performance.now() + (retryAfterMs ?? delayMs);
    },
    reset: () => {
      delayMs = 0;
    },
    isElapsed: () => performance.now() >= until,
  };
}

// Logs an outage once.
function createOutageLog({ url, log }: TelemetryOptions): {
  readonly onFailure: (detail: string) => void;
  readonly onSuccess: () => void;
} {
  let isLogged = false;
  return {
    onFailure: (detail) => {
      if (!isLogged) log.warn("failed to export spans", { collector: new URL(url).host, detail });
      isLogged = true;
    },
    onSuccess: () => {
      isLogged = false;
    },
  };
}
