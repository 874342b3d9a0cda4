// The events of a background response that was requested with `stream: true`, in memory while it runs. Any number of readers
// follow it at their own pace; each begins after the sequence number that it has seen last.

import { isObject, type JsonObject } from "../../base/json.ts";

/** Longer streams are aborted: every event stays in memory until the end. */
const LOG_MAX_CHARACTERS = 16 * 1_048_576;

const TERMINAL_TYPES: ReadonlySet<unknown> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
]);

export interface EventBatch {
  readonly events: readonly string[];
  /** Whether no event follows. */
  readonly isEnd: boolean;
}

export interface EventLog {
  /** Adds an event; false if the log is full. The index of an event is its `sequence_number`. */
  readonly add: (event: JsonObject) => boolean;
  readonly end: () => void;
  /** The events from `from` on, as JSON text. */
  readonly read: (from: number) => EventBatch;
  /** Resolves with the next event or the end, or after `maxMs`. */
  readonly waitForMore: (from: number, maxMs: number) => Promise<void>;
}

export function createEventLog(): EventLog {
  const events: string[] = [];
  const waiting = new Set<() => void>();
  let characters = 0;
  let hasEnded = false;
  const notify = (): void => {
    for (const wake of waiting) wake();
    waiting.clear();
  };
  return {
    add: (event) => {
      const text = JSON.stringify({ ...event, sequence_number: events.length });
      characters += text.length;
      if (characters > LOG_MAX_CHARACTERS) return false;
      events.push(text);
      notify();
      return true;
    },
    end: () => {
      hasEnded = true;
      notify();
    },
    read: (from) => ({ events: events.slice(from), isEnd: hasEnded }),
    waitForMore: (from, maxMs) => {
      if (hasEnded || events.length > from) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(done, maxMs);
        function done(): void {
          clearTimeout(timer);
          waiting.delete(done);
          resolve();
        }
        waiting.add(done);
      });
    },
  };
}

export function isTerminalEvent({ type }: JsonObject): boolean {
  return TERMINAL_TYPES.has(type);
}

/** The event of a Responses stream in SSE form. */
export function toSse(eventText: string): string {
  const event: unknown = JSON.parse(eventText);
  const type = isObject(event) ? String(event["type"]) : "message";
  return `event: ${type}\ndata: ${eventText}\n\n`;
}
