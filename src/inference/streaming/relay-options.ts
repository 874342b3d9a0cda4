// What a stream's relay needs and keeps, and how a stream can end.

import type { AbortSignalLike, BodyStream } from "@postern/http-client";
import type { JsonObject } from "../../base/json.ts";
import type { ResponseSink } from "../../http/response-stream.ts";
import type { HoldState } from "../../ledger/lease.ts";
import type { GuardedStream } from "../guardrails/guarded-stream.ts";
import type { EventPipeline } from "./event-pipeline.ts";
import type { RollingHold } from "./rolling-hold.ts";
import type { SharedTimer } from "./shared-timer.ts";

/** How a stream ended, as its usage record says it. */
export type StreamOutcome =
  | "completed"
  | "client_aborted"
  | "shut_down"
  | "limit_exceeded"
  | "budget_cut"
  | "empty_reply"
  | "guardrail_denied"
  | "upstream_error"
  | "upstream_timeout";

/** Why a stream ended, if the provider did not state an error. */
export type StreamFailure =
  | "timed_out"
  | "connection_lost"
  | "incomplete"
  | "malformed"
  /** An event, or the whole stream, is longer than the gateway's limit. */
  | "too_long"
  | "unsettled"
  | "hold_lost"
  /** The store did not confirm the hold, or the charge, in time. */
  | "store_unavailable"
  /** The caller's session was stopped. */
  | "stopped"
  /** A guardrail denied the reply. */
  | "denied"
  | "shut_down";

/** `failed`: by an error event of the provider, which the caller has seen. */
export type StreamEnd = "completed" | "failed" | StreamFailure;

export function outcomeOf(end: StreamEnd): StreamOutcome {
  if (end === "completed") return "completed";
  // The gateway itself ended the stream.
  if (end === "hold_lost" || end === "store_unavailable" || end === "shut_down") return "shut_down";
  if (end === "stopped") return "client_aborted";
  if (end === "denied") return "guardrail_denied";
  if (end === "too_long") return "limit_exceeded";
  return end === "timed_out" ? "upstream_timeout" : "upstream_error";
}

export interface StreamLimits {
  /** Between two chunks of a stream. */
  readonly idleMs: number;
  /** How long a stream is read on for its usage after its client has left, or the gateway has ended the response. */
  readonly drainMs: number;
  /** The most bytes of an event of a stream. */
  readonly eventMaxBytes: number;
  /** The most bytes of a stream that are relayed. Up to as many more are read. */
  readonly streamMaxBytes: number;
}

/** How a stream ended, and what follows for its charge. */
export interface StreamSettlement {
  readonly outcome: StreamOutcome;
  /** The provider's reply is complete. */
  readonly isWhole: boolean;
  /** The client left, or the gateway ended the response: without the provider's usage, what was relayed is charged. */
  readonly isAbandoned: boolean;
  /** The gateway stopped reading before the usage arrived, and the provider may still bill: the hold is charged. */
  readonly isBillOpen: boolean;
  /** The gateway ended the provider's stream, because no more credits could be held for it. */
  readonly isCut?: true;
  /** The hold does not cover all output: the caller gets the rest only if its cost can be held. */
  readonly isWithheld?: boolean;
}

export interface SettledReply {
  /** The hold was swept, and others spent its credits, before the charge: the reply must not look complete. */
  readonly isUncovered: boolean;
  /** The store is unavailable, and the settlement is retried later: the reply must not look complete. */
  readonly isDeferred: boolean;
  /** The reply cost more than could be held for it, and the rest is not charged. */
  readonly isClamped?: boolean;
}

/** How an abandoned stream is read on. */
export interface Drain {
  /** 0 if the stream can be closed at once. */
  readonly waitMs: number;
  /** Whether the provider bills on after the connection is closed, or an amount that only its usage tells. */
  readonly isBillOpen: boolean;
  /** Whether all is known that was waited for, before the usage is final. */
  readonly isKnown: () => boolean;
  /** Resolves when the provider has counted what was relayed, or has not. */
  readonly counting?: Promise<void> | undefined;
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
  readonly limits: StreamLimits;
  readonly now: () => number;
  readonly shutdownSignals: ShutdownSignals;
  /** While it stays the same, a hold that was confirmed is still held. */
  readonly leaseTerm: () => number;
  /** For a call that still runs. */
  readonly extendHold: (id: string) => void;
}

export interface RelayOptions {
  /** The provider's stream. */
  readonly body: BodyStream;
  readonly pipeline: EventPipeline;
  /** Asked once, when the client has left or the gateway has ended the response. */
  readonly drain: () => Drain;
  /** Called about once a minute while bytes arrive: the call may take as long as it does. */
  readonly extendHold: () => void;
  /** Whether the call's credits are still held. */
  readonly confirmHold: () => "held" | Promise<HoldState>;
  /** Set for a stream whose hold grows with it. */
  readonly roll: RollingHold | undefined;
  /** Set for a stream that guardrails check; it has the body. */
  readonly guarded: Pick<GuardedStream, "onDenied"> | undefined;
  /** The events that end a stream which was cut, after its settlement. */
  readonly lengthStop: () => Uint8Array | undefined;
  /** Whether the session of the call was stopped. Asked about once a second. */
  readonly isStopped: () => boolean;
  /** Called once, when the stream ends. */
  readonly settle: (settlement: StreamSettlement) => Promise<SettledReply>;
  /** The body of the error event for a stream that broke. */
  readonly errorBody: (failure: StreamFailure) => JsonObject;
  /** Receives what is sent, for a repetition with the same `Idempotency-Key`. */
  readonly record: ((bytes: Uint8Array) => void) | undefined;
  /** Receives everything that is sent before the settlement, and the last event of a whole reply. */
  readonly onSent: ((bytes: Uint8Array) => void) | undefined;
}

/**
 * One object with what every chunk needs, first: with hundreds of open streams, each object of a stream has left the
 * processor's cache between two of its chunks.
 */
export interface Relay extends RelayOptions {
  readonly deps: RelayDeps;
  /** Undefined until the client reads the response. */
  sink: ResponseSink | undefined;
  bytes: number;
  lastReceivedAt: number;
  lastSentAt: number;
  /** The term of the lease in which the hold was last confirmed. */
  heldTerm: number | undefined;
  /** Whether it is uncertain that the call's credits are still held. */
  isUnconfirmed: boolean;
  /** Output that the hold does not cover yet. */
  withheld: Uint8Array | undefined;
  /** Forgets what the last events of a cut would repeat of it. */
  dropWithheld: () => void;
  /** What arrived while the stream waited for its hold: until it is confirmed, or raised. */
  waiting: Uint8Array[] | undefined;
  /** Whether the stream waits for the client; otherwise it waits for the provider. */
  isBackpressured: boolean;
  /** Whether nothing is sent any more: the client has left, or the gateway has ended the response. */
  hasClientLeft: boolean;
  /** Why the gateway ended the response. */
  endedBy: StreamFailure | undefined;
  hasEnded: boolean;
  /** Set if the body ended while the stream waited; false if the connection was lost. */
  waitingEnd: boolean | undefined;
  holdExtendedAt: number;
  /** Set once the response has ended before the provider's reply. */
  rest: Drain | undefined;
  restUntil: number;
  restMaxBytes: number;
  stopTimer: () => void;
}
