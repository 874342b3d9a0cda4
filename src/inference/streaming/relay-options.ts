// What a stream's relay needs, and how a stream can end.

import type { AbortSignalLike } from "../../base/async/abort.ts";
import type { JsonObject } from "../../base/json.ts";
import type { BodyStream } from "../../http-client/body-stream.ts";
import type { EventPipeline } from "./event-pipeline.ts";
import type { SharedTimer } from "./shared-timer.ts";

/** How a stream ended, as its usage record says it. */
export type StreamOutcome =
  | "completed"
  | "client_aborted"
  | "shut_down"
  | "upstream_error"
  | "upstream_timeout";

/** Why a stream ended, if the provider did not state an error. */
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

/** The two deadlines of a shutdown for calls in flight. */
export interface ShutdownSignals {
  /** Aborted at the end of the drain: the calls of connected callers end. */
  readonly drained: Pick<AbortSignalLike, "aborted">;
  /** Aborted later: the calls of callers that have left end, too. */
  readonly forced: Pick<AbortSignalLike, "aborted">;
}

/** Shared by all streams. */
export interface RelayDeps {
  readonly timer: SharedTimer;
  readonly timeouts: StreamTimeouts;
  readonly now: () => number;
  readonly shutdownSignals: ShutdownSignals;
  /** While it stays the same, a hold that was confirmed is still held. */
  readonly leaseTerm: () => number;
}

export interface RelayOptions {
  /** The provider's stream. */
  readonly body: BodyStream;
  readonly pipeline: EventPipeline;
  /** How long the stream is still read, for the provider's usage, after the client has left. */
  readonly usageWaitMs: () => number;
  /** Whether the call's credits are still held. */
  readonly confirmHold: () => true | Promise<boolean>;
  /** Called once, when the stream ends. `isWhole`: the provider's reply is complete. */
  readonly settle: (
    outcome: StreamOutcome,
    isWhole: boolean,
  ) => Promise<{
    /** Other calls have spent the credits of the hold: the stream must not look complete. */
    readonly isUncovered: boolean;
  }>;
  /** The body of the error event for a stream that broke. */
  readonly errorBody: (failure: StreamFailure) => JsonObject;
  /** Receives what is sent, for a repetition with the same `Idempotency-Key`. */
  readonly record: ((bytes: Uint8Array) => void) | undefined;
}
