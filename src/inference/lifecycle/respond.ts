// Turns a provider's reply into the response: a whole reply at once, a stream as it arrives.

import { errorBody, errorFormat, publicError } from "../../base/error-body.ts";
import { Fault } from "../../base/fault.ts";
import { usdText } from "../../base/money.ts";
import { createSseParser } from "../../base/streams/sse.ts";
import type { Lease } from "../../ledger/lease.ts";
import { hasInputTokens, NO_CHARGE } from "../metering/charge.ts";
import { usageSoFar } from "../metering/usage/stream-meter.ts";
import { createStreamMeter } from "../metering/usage/usage.ts";
import type { StickyRouting } from "../routing/sticky-routing.ts";
import { relayStream } from "../streaming/relay.ts";
import type { StreamFailure, StreamTimeouts } from "../streaming/relay-options.ts";
import type { SharedTimer } from "../streaming/shared-timer.ts";
import { createAwsFrameParser } from "../upstream/aws-frames.ts";
import { shutDownFault } from "../upstream/failure.ts";
import { transportFault } from "../upstream/transport-fault.ts";
import type { UpstreamReply } from "../upstream/read-reply.ts";
import type { HeldCall, MeteredReply } from "./call.ts";
import { drainMsFor, type ShutdownSignals } from "./client-disconnect.ts";
import { createReplyRecorder, toStoredReply } from "./idempotent-reply.ts";
import { billedCost, chargeStream, chargeUsage } from "./meter.ts";
import { responseHeaders } from "./response-headers.ts";
import { settle, type SettleDeps } from "./settle.ts";

export interface RespondDeps {
  readonly recordProvider: StickyRouting["record"];
  readonly settle: SettleDeps;
  readonly timer: SharedTimer;
  readonly timeouts: StreamTimeouts;
  readonly now: () => number;
  readonly monotonicNow: () => number;
  readonly lease: Pick<Lease, "term" | "confirmHold">;
  readonly shutdownSignals: ShutdownSignals;
}

export async function respond(
  deps: RespondDeps,
  call: HeldCall,
  reply: UpstreamReply,
): Promise<Response> {
  const { stickyKey, credential } = call.candidate;
  if (stickyKey !== undefined) {
    const { conversation, requestedModel } = stickyKey;
    deps.recordProvider(conversation, requestedModel, credential.provider.id, deps.now());
  }
  if (reply.kind === "stream") return respondStream(deps, call, reply);
  const { response, metered } = respondWhole(deps, call, reply);
  // Checked before and after: the settlement of a swept hold charges only what is left.
  if (!isHoldCertain(deps, call) && !(await confirmHold(deps, call))) {
    await settle(deps.settle, call, UNSERVED);
    throw suspendedFault();
  }
  const { isUncovered } = await settle(deps.settle, call, metered);
  if (isUncovered) throw suspendedFault();
  return response;
}

/** Of a reply that the caller does not get, because its hold was lost. */
const UNSERVED: MeteredReply = {
  charge: NO_CHARGE,
  cost: 0n,
  outcome: "shut_down",
  status: 503,
};

function respondWhole(
  { now }: RespondDeps,
  call: HeldCall,
  reply: UpstreamReply & { readonly kind: "whole" },
): { readonly response: Response; readonly metered: MeteredReply } {
  const { input, plan } = call;
  const usage = plan.readUsage(reply.json);
  const charge = chargeUsage(call, usage, now());
  const cost = billedCost(call, charge);
  const costUsd = usdText(cost);
  const { text, dropped } = plan.writeReply(reply, usage, costUsd);
  const headers = responseHeaders(call, reply.headers, dropped);
  headers["content-type"] = "application/json";
  headers["x-postern-cost-usd"] = costUsd;
  const outcome = input.signal.aborted ? "client_aborted" : "completed";
  const stored = input.idempotent === undefined ? undefined : toStoredReply(headers, text);
  const metered = { charge, cost, outcome, status: 200, stored, replyLosses: dropped } as const;
  return { response: new Response(text, { headers }), metered };
}

/** The call is settled once, when the stream ends; its last event waits for that. */
function respondStream(
  deps: RespondDeps,
  call: HeldCall,
  reply: UpstreamReply & { readonly kind: "stream" },
): Response {
  const { input, request, candidate, plan } = call;
  const { wire } = plan;
  if (wire === "embeddings" || wire === "count_tokens") throw new Error(`${wire} is not streamed`);
  const { provider } = candidate.credential;
  const meter = createStreamMeter(wire, provider.id, request.choices);
  const recorder = input.idempotent === undefined ? undefined : createReplyRecorder();
  const costUsd = (): string | undefined => {
    const usage = usageSoFar(meter);
    return usage && usdText(billedCost(call, chargeUsage(call, usage, deps.now())));
  };
  const firstTokenMs = Math.max(0, deps.now() - input.now);
  const headers = responseHeaders(call, reply.headers);
  headers["content-type"] = plan.isTranslated
    ? "text/event-stream; charset=utf-8"
    : reply.contentType;
  headers["cache-control"] = "no-store";
  headers["x-accel-buffering"] = "no";
  const stream = relayStream({
    body: reply.body,
    first: reply.first,
    parser: wire === "converse" ? createAwsFrameParser() : createSseParser(),
    meter,
    parsesAllEvents: plan.isTranslated,
    transform: plan.createStreamTransform(costUsd),
    timer: deps.timer,
    timeouts: deps.timeouts,
    now: deps.monotonicNow,
    endsStreamByClosing: provider.endsStreamByClosing && !plan.isTranslated,
    lacksTerminalEvent: provider.endsStreamByClosing || wire === "gemini",
    drainMs: () => drainMsFor(call, hasInputTokens(usageSoFar(meter))),
    drainedSignal: deps.shutdownSignals.drained,
    shutdownSignal: deps.shutdownSignals.forced,
    isHoldCertain: () => isHoldCertain(deps, call),
    confirmHold: () => confirmHold(deps, call),
    costUsd,
    settle: (outcome, isWhole) => {
      const charge = chargeStream(call, meter, { outcome, endedAt: deps.now() });
      const cost = billedCost(call, charge);
      const stored = isWhole ? recorder?.reply(headers) : undefined;
      const metered = { charge, cost, outcome, status: 200, stored, firstTokenMs };
      return settle(deps.settle, call, metered);
    },
    errorBody: (failure) => {
      const error = publicError(streamFault(call, failure));
      return errorBody(errorFormat(request.api), error, input.requestId);
    },
    ...(recorder === undefined ? {} : { record: recorder.record }),
  });
  return new Response(stream, { headers });
}

/** A hold of zero reserves nothing that others could spend. */
function isHoldCertain({ lease }: RespondDeps, { hold }: HeldCall): boolean {
  return hold.amount === 0n || hold.leaseTerm === lease.term();
}

/** Whether the call's credits are still held; asks the store only after an interruption of the lease. */
async function confirmHold(deps: RespondDeps, call: HeldCall): Promise<boolean> {
  if (isHoldCertain(deps, call)) return true;
  const term = (await deps.lease.confirmHold(call.input.requestId)) ? deps.lease.term() : 0;
  call.hold.leaseTerm = term;
  return term !== 0;
}

function suspendedFault(): Fault {
  return new Fault("overloaded", "the gateway was suspended and lost the call's hold", {
    message:
      "The gateway was suspended during the call, and its credits are no longer held. Send the request again.",
    retryAfterSeconds: 1,
  });
}

function streamFault({ candidate }: HeldCall, failure: StreamFailure): Fault {
  if (failure === "hold_lost") return suspendedFault();
  if (failure === "shut_down") return shutDownFault();
  return failure === "unsettled"
    ? new Fault("internal", "the call could not be settled")
    : transportFault(failure, `stream: ${failure}`, candidate.credential);
}
