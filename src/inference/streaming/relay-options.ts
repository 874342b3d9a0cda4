// What the relay of a stream needs, and how a stream can end.

import type { AbortSignalLike } from "../../base/abort.ts";
import type { JsonObject } from "../../base/json.ts";
import type { SseParser } from "../../base/streams/sse.ts";
import type { BodyStream } from "../../http-client/body-stream.ts";
import type { StreamMeter } from "../metering/usage/stream-meter.ts";
import type { StreamTransform } from "../translate/stream-transform.ts";
import type { SharedTimer } from "./shared-timer.ts";

/** How a stream ended, as its usage record says it. */
export type StreamOutcome =
  | "completed"
  | "client_aborted"
  | "shut_down"
  | "upstream_error"
  | "upstream_timeout";

/** Why a stream ended without the provider saying why. */
export type StreamFailure =
  | "timed_out"
  | "connection_lost"
  | "incomplete"
  | "malformed"
  | "unsettled"
  | "hold_lost"
  | "shut_down";

export interface StreamTimeouts {
  /** Between two chunks of a stream. */
  readonly idleMs: number;
  /** For the whole stream, from its first byte. */
  readonly streamMs: number;
}

export interface RelayOptions {
  /** The provider's stream, after `first`. */
  readonly body: BodyStream;
  /** What was read of it in search of the first event. */
  readonly first: Uint8Array | undefined;
  readonly parser: SseParser;
  readonly meter: StreamMeter;
  /** Whether every event is parsed anyway, because it is translated. */
  readonly parsesAllEvents: boolean;
  readonly transform: StreamTransform;
  readonly timer: SharedTimer;
  readonly timeouts: StreamTimeouts;
  readonly now: () => number;
  /** Whether closing ends this passthrough stream: then everything from the stop reason on waits for the settlement. */
  readonly endsStreamByClosing: boolean;
  /** Whether the provider's streams have no terminal event. */
  readonly lacksTerminalEvent: boolean;
  /** How long the stream is read on, for the provider's usage, after the client has left in the middle of a reply. */
  readonly drainMs: () => number;
  /** Aborted at the end of the drain: the stream of a connected client ends with an error. */
  readonly drainedSignal: Pick<AbortSignalLike, "aborted">;
  /** Aborted when a shutdown leaves no time for that. */
  readonly shutdownSignal: Pick<AbortSignalLike, "aborted">;
  /** Whether the call's credits are certainly still held; otherwise `confirmHold` finds out. */
  readonly isHoldCertain: () => boolean;
  readonly confirmHold: () => Promise<boolean>;
  /** The cost so far. */
  readonly costUsd: () => string | undefined;
  /** Called once, when the stream ends. `isWhole`: the provider's reply is complete. */
  readonly settle: (outcome: StreamOutcome, isWhole: boolean) => Promise<unknown>;
  /** The body of the error event for a stream that broke. */
  readonly errorBody: (failure: StreamFailure) => JsonObject;
  /** Receives what is sent, for a repetition with the same `Idempotency-Key`. */
  readonly record?: (bytes: Uint8Array) => void;
}
