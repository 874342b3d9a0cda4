// One model call on its way: what every step of its life is given, and the few things that several steps ask of it.

import type { Log } from "../../base/log.ts";
import type { Fault } from "../../base/fault.ts";
import type { Abort, AbortSignalLike } from "../../base/abort.ts";
import { CORS_HEADERS } from "../../http/response.ts";
import type { Caller } from "../../http/route.ts";
import type { Send } from "../../http-client/client.ts";
import type { Freeze } from "../../ledger/freezes.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Catalog } from "../../models/catalog.ts";
import type { LiveCatalog } from "../../models/live-catalog.ts";
import type { Tx } from "../../store/db.ts";
import type { ProviderAttempt, UsageRecord } from "../../usage/usage.ts";
import type { Api, ParsedRequest } from "../request/parse-request.ts";
import type { CircuitBreaker } from "../routing/circuit-breaker.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { ChargeContext, UsageCharge } from "../metering/charge.ts";
import type { CostEstimate } from "../metering/cost-estimate.ts";
import type { TransportPlan } from "../translate/plan.ts";
import type { RoutingDeps } from "../routing/routing.ts";
import type { SharedTimer } from "../streaming/shared-timer.ts";
import type { Timeouts } from "./timeouts.ts";

/** What the usage room and the idempotency room write in the step that settles a call. */
export interface SettledCall {
  readonly usage: UsageRecord;
  /** The whole answer, where the caller may ask for it again; without one, the request may be run again. */
  readonly idempotent?:
    | { readonly call: IdempotentCall; readonly reply: StoredReply | undefined }
    | undefined;
  /** Writes the response that the caller asked to have stored. */
  readonly storeReply?: ((tx: Tx) => Promise<void>) | undefined;
}

/** A call that goes on from stored responses, or is to be stored itself. */
export interface StatefulCall {
  /** The request with all that came before it: what is bounded, held and sent. */
  readonly request: ParsedRequest;
  /** Why it cannot be made on the gateway's credentials, in terms of the request as it came. */
  readonly sharedCredentialsFault: () => Fault | undefined;
  /** How this candidate is spoken to, and its reply read. */
  readonly planFor: (
    candidate: Candidate,
    make: (request: ParsedRequest) => TransportPlan,
  ) => TransportPlan;
  /** Called when the money is held, before anything is sent. */
  readonly onHeld?: () => Promise<void>;
  /** Writes the reply, once it is whole; undefined where there is nothing to write. */
  readonly storeReply: () => ((tx: Tx) => Promise<void>) | undefined;
}

export interface IdempotentCall {
  readonly scope: string;
  readonly key: string;
  readonly body: string;
  readonly now: number;
}

export interface StoredReply {
  readonly status: number;
  readonly body: string;
}

export interface InferDeps extends RoutingDeps {
  readonly catalog: LiveCatalog;
  readonly ledger: Ledger<SettledCall>;
  readonly breaker: CircuitBreaker;
  readonly timer: SharedTimer;
  readonly sendHttp: Send;
  readonly timeouts: Timeouts;
  readonly now: () => number;
  readonly log: Log;
  /** A steady name for an account that says nothing about it. */
  readonly pseudonymOf: (accountId: string) => string;
  readonly isClaimed: (accountId: string) => Promise<boolean>;
  /** No human can take an account over here. */
  readonly isSignInDisabled: boolean;
  /** Why an account makes no calls. */
  readonly freezeOf?: (accountId: string) => Promise<Freeze | undefined>;
  readonly rateLimit: { readonly intervalMs: number; readonly burst: number } | undefined;
  readonly openCallsMax: number | undefined;
  /** Told of each call whose record is written. */
  readonly onSettled?: ((record: UsageRecord, call: HeldCall) => void) | undefined;
  /** Called around every call, so that a shutdown can wait for the money. */
  readonly trackCall: () => () => void;
  /** Aborted when the process ends: nothing is waited for on behalf of a caller who has left. */
  readonly shutdownSignal: Pick<AbortSignalLike, "aborted">;
  /** What a call has to do with stored responses: undefined for most, or an answer where it runs in the background. */
  readonly resolveStatefulCall?: (
    request: ParsedRequest,
    input: CallInput,
  ) => Promise<StatefulCall | Response | undefined> | undefined;
}

export interface CallInput {
  readonly api: Api;
  readonly text: string;
  readonly caller: Caller;
  readonly requestId: string;
  readonly now: number;
  readonly headers: Headers;
  readonly signal: AbortSignal;
  readonly idempotent: IdempotentCall | undefined;
  /** Whether a payment came with it that would be taken: its caller would rather pay than wait. */
  readonly hasPayment?: boolean;
  /** Known already for a call that runs in the background. */
  readonly statefulCall?: StatefulCall;
}

export interface HeldCall {
  readonly input: CallInput;
  readonly request: ParsedRequest;
  readonly statefulCall: StatefulCall | undefined;
  /** The prices as they were when the call began. */
  readonly catalog: Catalog;
  readonly estimate: CostEstimate;
  readonly held: bigint;
  readonly outputMax: number | undefined;
  readonly attempts: ProviderAttempt[];
  readonly abort: Abort;
  readonly untrack: () => void;
  /** How the candidate that is being tried is spoken to. */
  plan: TransportPlan | undefined;
}

export function holdIds(call: Pick<HeldCall, "input">): {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
} {
  const { requestId, caller } = call.input;
  return { id: requestId, accountId: caller.accountId, keyId: caller.keyId };
}

export function planOf({ plan }: HeldCall): TransportPlan {
  if (plan === undefined) throw new Error("a call was answered that was never sent");
  return plan;
}

/** Whether closing the connection ends the bill, or the bill is not the gateway's. */
export function abortStopsBilling({ credential }: Pick<Candidate, "credential">): boolean {
  return credential.provider.stopsBillingOnAbort || credential.byok;
}

const DRAIN_MAX_MS = 120_000;
const REASONING_DRAIN_MS = 500;

/**
 * How long a stream is read on after its reader has left: to its end where closing the connection does not end the bill,
 * and for a while where a model thinks unseen, since only the provider's count knows of that.
 */
export function drainMsOf({ credential, model }: Candidate): number {
  if (!abortStopsBilling({ credential })) return DRAIN_MAX_MS;
  return !credential.byok && model.supported.includes("reasoning") ? REASONING_DRAIN_MS : 0;
}

export function chargeContext(call: HeldCall, candidate: Candidate): ChargeContext {
  return {
    catalog: call.catalog,
    model: candidate.model,
    estimate: call.estimate,
    held: call.held,
    at: call.input.now,
  };
}

export function billedCost(charged: UsageCharge, candidate: Candidate): bigint {
  return candidate.credential.byok ? 0n : charged.cost;
}

/**
 * The headers of an answer, born with it: those of the provider's that are of use, and the gateway's own. `lost`: what of
 * the reply the caller's API could not say.
 */
export function responseHeaders(
  call: HeldCall,
  candidate: Candidate,
  providerHeaders: Readonly<Record<string, string>>,
  replyLosses: readonly string[] = [],
): Record<string, string> {
  const headers: Record<string, string> = {
    ...CORS_HEADERS,
    "x-request-id": call.input.requestId,
    "x-postern-provider": candidate.credential.provider.id,
    "x-postern-model": candidate.model.id,
    "x-postern-byok": candidate.credential.byok ? "true" : "false",
  };
  for (const name in providerHeaders) headers[name] = providerHeaders[name] ?? "";
  const dropped = call.plan?.dropped ?? [];
  if (dropped.length + replyLosses.length > 0)
    headers["x-postern-dropped"] = joinPaths([...dropped, ...replyLosses]);
  if (call.outputMax !== undefined) headers["x-postern-max-tokens"] = String(call.outputMax);
  return headers;
}

/** Node refuses an answer whose headers are more than 16 KiB together. */
const DROPPED_HEADER_MAX_LENGTH = 4_000;
/** A caller's own field may have a name of any length. */
const PATH_MAX_LENGTH = 500;

// Every turn of a long conversation may have lost something.
function joinPaths(paths: readonly string[]): string {
  const all = [...new Set(paths)];
  let text = "";
  for (const [index, rawPath] of all.entries()) {
    const path = headerSafe(rawPath);
    if (text.length + path.length > DROPPED_HEADER_MAX_LENGTH)
      return `${text}, and ${all.length - index} more`;
    text += index === 0 ? path : `, ${path}`;
  }
  return text;
}

// A name may have characters that no header takes: they are written as in JSON.
function headerSafe(path: string): string {
  const cut = path.length > PATH_MAX_LENGTH ? `${path.slice(0, PATH_MAX_LENGTH)}...` : path;
  return cut.replaceAll(
    /[^\x20-\x7e]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
