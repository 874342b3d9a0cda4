// Responds with a provider's stream while it arrives. The call is settled once, when the stream ends, and only then is the
// last event sent.

import { createHash } from "node:crypto";
import {
  API_TRAITS,
  createBytesParser,
  createSseParser,
  type SseParser,
  createStreamMeter,
  type CutStream,
  type StreamMeter,
  usageSoFar,
  createAwsFrameParser,
  WIRE_TRAITS,
} from "@postern/wires";
import { errorBody } from "../../../base/error-body.ts";
import { Fault } from "../../../base/fault.ts";
import type { JsonObject } from "../../../base/json.ts";
import { usdNumber, usdText } from "../../../base/money/money.ts";
import { SECOND_MS } from "../../../base/time.ts";
import { streamResponse } from "../../../http/response-stream.ts";
import { markCommonHeaders } from "../../../http/response.ts";
import type { Lease } from "../../../ledger/lease.ts";
import { type GuardedStream, guardStream } from "../../guardrails/guarded-stream.ts";
import { tokenTotals } from "../../metering/charge.ts";
import type { Credential } from "../../providers/credentials.ts";
import { createEventPipeline, type EventPipeline } from "../../streaming/event-pipeline.ts";
import type {
  RelayDeps,
  StreamFailure,
  StreamOutcome,
  StreamSettlement,
} from "../../streaming/relay-options.ts";
import { relayStream } from "../../streaming/relay.ts";
import { shutDownFault } from "../../upstream/failure.ts";
import type { UpstreamReply } from "../../upstream/read-upstream-reply.ts";
import { tooLongFault } from "../../upstream/too-long-reply.ts";
import { transportFault } from "../../upstream/transport-fault.ts";
import {
  type CallInput,
  type HeldCall,
  logsPrompts,
  type MeteredReply,
  publicErrorFor,
} from "../call.ts";
import { confirmHold, lostHoldFault } from "../hold/confirm-hold.ts";
import { stoppedSessionFault } from "../hold/hold-faults.ts";
import { heldCharge, settle, type SettleDeps } from "../settle.ts";
import type { StoppedSessions } from "../stopped-sessions.ts";
import { drainOf, isCountedByProvider } from "./client-disconnect.ts";
import {
  type ProviderCount,
  type ProviderCountDeps,
  startProviderCount,
} from "./count-at-provider.ts";
import { createReplyRecorder } from "./idempotent-reply.ts";
import {
  type BilledCharge,
  chargeCut,
  chargeStream,
  chargeUsage,
  isNothing,
  isOutputUnreported,
  type MeteredStream as ChargedStream,
  withinHold,
} from "./meter.ts";
import { responseHeaders } from "./response-headers.ts";

type StreamReply = UpstreamReply & { readonly kind: "stream" };

export interface RespondStreamDeps {
  readonly settle: SettleDeps;
  readonly now: () => number;
  readonly lease: Pick<Lease, "term" | "confirmHold">;
  readonly relay: RelayDeps;
  readonly count: ProviderCountDeps;
  readonly stoppedSessions: Pick<StoppedSessions, "has">;
}

export function respondStream(
  deps: RespondStreamDeps,
  call: HeldCall,
  reply: StreamReply,
): Response {
  const { input, request, candidate, plan } = call;
  const { lacksTerminalEvent } = WIRE_TRAITS[plan.wire];
  const { provider } = candidate.credential;
  const { relayedStream } = plan;
  const meter = meterFor(call);
  const isRecorded = input.idempotent !== undefined || logsPrompts(input);
  const recorder = isRecorded ? createReplyRecorder() : undefined;
  const hash = call.receipt === undefined ? undefined : createSentHash(input);
  const firstTokenMs = Math.max(0, deps.now() - input.now);
  const headers = streamHeaders(call, reply, deps.now());
  const guarded = guardedStreamOf(deps, call, reply);
  const pipeline = createEventPipeline({
    parser: guarded === undefined ? parserFor(deps, call) : sseParser(deps),
    meter,
    transform: plan.createStreamTransform(),
    parsesAllEvents: plan.isTranslated,
    endsStreamByClosing: (provider.endsStreamByClosing || lacksTerminalEvent) && !plan.isTranslated,
    lacksTerminalEvent: provider.endsStreamByClosing || lacksTerminalEvent,
    bytes: relayedStream && {
      isSent: relayedStream.sent === "bytes",
      isReturned: relayedStream.returned === "bytes",
    },
    keepsReply: call.roll !== undefined && API_TRAITS[request.api].endRepeatsReply === true,
    costUsd: () => costSoFar(call, meter, deps.now()),
  });
  let count: ProviderCount | undefined;
  let settled: BilledCharge | undefined;
  const relay = relayStream(deps.relay, {
    body: guarded?.body ?? reply.body,
    guarded,
    pipeline,
    drain: () => {
      call.isAbandoned = true;
      if (isCountedByProvider(call, meter)) count = startProviderCount(deps.count, call, meter);
      return drainOf(call, pipeline, { drainMs: deps.relay.limits.drainMs, count });
    },
    extendHold: () => deps.relay.extendHold(input.requestId),
    confirmHold: () => confirmHold(deps.lease, call),
    isStopped: () => deps.stoppedSessions.has(input.caller.accountId, input.session?.id),
    settle: async (settlement) => {
      const billed = await chargeEnd(deps, call, { meter, count }, settlement);
      const { charge, cost, isClamped } = billed;
      settled = billed;
      const isServed =
        (settlement.isWithheld !== true || !isClamped) && guarded?.denied === undefined;
      // What was relayed of a reply with an event that is too long has no end, so it is not replayed.
      const canReplay = settlement.isWhole && isServed && !pipeline.parser.hasCutEvent;
      const ended = await settle(deps.settle, call, {
        charge,
        cost,
        ...meteredStream(meter, withOutcome(settlement, { isClamped, denied: guarded?.denied })),
        stored: canReplay ? recorder?.reply(headers) : undefined,
        logged: isServed && logsPrompts(input) ? recorder?.logged(headers) : undefined,
        firstTokenMs,
        responseSha256: hash?.digest(),
      });
      return isClamped ? { ...ended, isClamped } : ended;
    },
    roll: call.roll,
    lengthStop: () => settled && lengthStopOf(call, pipeline, settled),
    errorBody: (failure) => streamErrorBody(call, failure, guarded?.denied),
    record: recorder?.record,
    onSent: hash && ((bytes) => hash.update(bytes)),
  });
  return markCommonHeaders(new Response(streamResponse(relay), { headers }));
}

interface SentHash {
  readonly update: (bytes: Uint8Array) => void;
  readonly digest: () => string;
}

/** The hash of the stream in the form in which its endpoint sends it. */
function createSentHash({ sentForm }: CallInput): SentHash {
  const hash = createHash("sha256");
  const writer = sentForm?.stream();
  return {
    update: (bytes) => void hash.update(writer === undefined ? bytes : writer.push(bytes)),
    digest: () => {
      if (writer !== undefined) hash.update(writer.end());
      return hash.digest("hex");
    },
  };
}

function costSoFar(call: HeldCall, meter: StreamMeter, now: number): string | undefined {
  const usage = usageSoFar(meter);
  if (usage === undefined) return undefined;
  if (isNothing(meter, usage)) return usdText(0n);
  if (isOutputUnreported(meter, usage)) return undefined;
  return usdText(chargeUsage(call, usage, now, meter.outputBytes).cost);
}

function meterFor({ plan, candidate, request }: HeldCall): StreamMeter {
  if (plan.createMeter !== undefined) return plan.createMeter();
  if (plan.relayedStream !== undefined) return plan.relayedStream.createMeter();
  const { translated: wire } = WIRE_TRAITS[plan.wire];
  if (wire === undefined) throw new Error(`${plan.wire} is not streamed`);
  return createStreamMeter(wire, candidate.credential.provider.id, request.choices);
}

function parserFor(deps: RespondStreamDeps, { plan }: HeldCall): SseParser {
  if (plan.relayedStream?.sent === "bytes") return createBytesParser();
  if (WIRE_TRAITS[plan.wire].framing === "aws" && plan.loop === undefined)
    return createAwsFrameParser();
  return sseParser(deps);
}

function sseParser({ relay }: RespondStreamDeps): SseParser {
  return createSseParser(relay.limits.eventMaxBytes, { cutsLongEvents: true });
}

/** A file, such as speech, has no text to check. */
function guardedStreamOf(
  deps: RespondStreamDeps,
  call: HeldCall,
  { body }: StreamReply,
): GuardedStream | undefined {
  const guard = call.input.guardrails?.output;
  if (guard === undefined || call.plan.relayedStream?.sent === "bytes") return undefined;
  return guardStream(body, parserFor(deps, call), guard);
}

interface Withheld {
  readonly isClamped: boolean;
  readonly denied: Fault | undefined;
}

/** Why the caller did not get the end of the reply, if it is not how the stream ended. */
function withOutcome(
  settlement: StreamSettlement,
  { isClamped, denied }: Withheld,
): StreamSettlement {
  if (denied !== undefined) return { ...settlement, outcome: "guardrail_denied" };
  return settlement.isWithheld === true && isClamped
    ? { ...settlement, outcome: "budget_cut" }
    : settlement;
}

/** The end of the process, or of the credits, or of a reply that a guardrail denied, is not the caller's doing. */
const OWN_ENDS: ReadonlySet<StreamOutcome> = new Set([
  "shut_down",
  "budget_cut",
  "guardrail_denied",
]);

type MeteredStream = Pick<
  MeteredReply,
  "outcome" | "status" | "isUsageMissing" | "countsAsAbandoned"
>;

function meteredStream(
  meter: StreamMeter,
  { outcome, isWhole, isAbandoned }: StreamSettlement,
): MeteredStream {
  const usage = usageSoFar(meter);
  const isReported = usage !== undefined && meter.isUsageFinal;
  return {
    outcome: isWhole && isNothing(meter, usage) ? "empty_reply" : outcome,
    status: 200,
    isUsageMissing: isWhole && (!isReported || isOutputUnreported(meter, usage)),
    countsAsAbandoned: isAbandoned && !OWN_ENDS.has(outcome),
  };
}

interface EndCharge extends BilledCharge {
  /** The reply cost more than could be held for it. */
  readonly isClamped: boolean;
}

async function chargeEnd(
  deps: RespondStreamDeps,
  call: HeldCall,
  metered: ChargedStream,
  settlement: StreamSettlement,
): Promise<EndCharge> {
  const isCut = settlement.isCut === true;
  const billed = isCut
    ? await chargeCutStream(deps, call, metered.meter)
    : await chargeStream(call, metered, settlement, deps.now());
  const held = isCut ? withinHold(call, billed) : await heldCharge(deps.settle, call, billed);
  return { ...held, isClamped: held.cost < billed.cost };
}

/** The provider's stream is closed, so what was relayed is all that it can count. */
export async function chargeCutStream(
  { count: countDeps, now }: Pick<RespondStreamDeps, "count" | "now">,
  call: HeldCall,
  meter: StreamMeter,
): Promise<BilledCharge> {
  const count = isCountedByProvider(call, meter)
    ? startProviderCount(countDeps, call, meter)
    : undefined;
  await count?.ended;
  return chargeCut(call, meter, now(), count);
}

const encoder = new TextEncoder();

function lengthStopOf(
  { input, request, candidate }: HeldCall,
  { first, latest, items }: EventPipeline,
  { charge, cost }: BilledCharge,
): Uint8Array | undefined {
  const { lengthStop, hasUsageOption } = API_TRAITS[request.api];
  const text = lengthStop?.({
    first,
    latest,
    items,
    id: input.requestId,
    model: candidate.model.id,
    createdSeconds: Math.floor(input.now / SECOND_MS),
    usage: cutUsageOf({ charge, cost }),
    showsUsage: !hasUsageOption || request.wantsUsage,
    reason: CUT_REASON,
  });
  return text === undefined ? undefined : encoder.encode(text);
}

/** Why a reply was cut, as its caller reads it. */
export const CUT_REASON = "budget";

/** What a reply that was cut says about its tokens. */
export function cutUsageOf({ charge, cost }: BilledCharge): CutStream["usage"] {
  return { ...tokenTotals(charge.usage), costUsd: usdNumber(cost) };
}

function streamHeaders(
  call: HeldCall,
  { headers: providerHeaders, contentType }: StreamReply,
  now: number,
): Headers {
  const headers = responseHeaders(call, providerHeaders);
  const { relayedStream } = call.plan;
  if (relayedStream?.returned === "bytes") {
    headers.set("content-type", relayedStream.contentType ?? mediaType(contentType));
    headers.set("cache-control", "no-store");
    const usage = relayedStream.knownUsage;
    if (usage !== undefined)
      headers.set("x-postern-cost-usd", usdText(chargeUsage(call, usage, now).cost));
    return headers;
  }
  headers.set(
    "content-type",
    call.plan.isTranslated ? "text/event-stream; charset=utf-8" : contentType,
  );
  headers.set("cache-control", "no-store");
  headers.set("x-accel-buffering", "no");
  return headers;
}

/** A page of a provider must not run on the gateway's origin. */
function mediaType(contentType: string): string {
  return /^audio\/[\w.+-]+/i.exec(contentType)?.[0] ?? "application/octet-stream";
}

function streamErrorBody(
  { input, request, candidate }: HeldCall,
  failure: StreamFailure,
  denied: Fault | undefined,
): JsonObject {
  const fault =
    failure === "stopped"
      ? stoppedSessionFault(input.session?.id ?? "")
      : (denied ?? streamFault(failure, candidate.credential));
  return errorBody(
    API_TRAITS[request.api].errorFormat,
    publicErrorFor(input, fault),
    input.requestId,
  );
}

function streamFault(failure: Exclude<StreamFailure, "stopped">, credential: Credential): Fault {
  if (failure === "hold_lost" || failure === "store_unavailable") return lostHoldFault(failure);
  if (failure === "shut_down") return shutDownFault();
  if (failure === "too_long") return tooLongFault();
  if (failure === "denied") return new Fault("guardrail_denied", "a guardrail denied the reply");
  return failure === "unsettled"
    ? new Fault("internal", "the call could not be settled")
    : transportFault(failure, `stream: ${failure}`, credential);
}
