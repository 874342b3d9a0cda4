// Turns a provider's reply into the response: a whole reply at once, a stream as it arrives.

import { Fault } from "../../../base/fault.ts";
import type { Guard } from "../../../base/guard.ts";
import { parseObject } from "../../../base/json.ts";
import { usdText } from "../../../base/money/money.ts";
import { markCommonHeaders } from "../../../http/response.ts";
import type { Outcome, UsageRecord } from "../../../usage/usage.ts";
import { RECEIPT_HEADER } from "../../request/call-options.ts";
import type { StickyRouting } from "../../routing/sticky-routing.ts";
import type { UpstreamReply } from "../../upstream/read-upstream-reply.ts";
import { type CallInput, type HeldCall, logsPrompts, type MeteredReply } from "../call.ts";
import { checkWholeReply, type WholeReply } from "../check-guardrails.ts";
import { confirmHold, storeUnavailableFault, suspendedFault } from "../hold/confirm-hold.ts";
import { heldCharge, settle, sha256, usageRecordOf } from "../settle.ts";
import { loggedText, toStoredReply } from "./idempotent-reply.ts";
import { type ChargedReply, chargeWholeReply, NOTHING_BILLED } from "./meter.ts";
import { CUT_REASON, respondStream, type RespondStreamDeps } from "./respond-stream.ts";
import { responseHeaders } from "./response-headers.ts";

export interface RespondDeps extends RespondStreamDeps {
  readonly signReceipt: (record: UsageRecord) => string | undefined;
  readonly recordProvider: StickyRouting["record"];
}

/** Not async: every call passes here, and each promise costs CPU. */
export function respond(
  deps: RespondDeps,
  call: HeldCall,
  reply: UpstreamReply,
): Response | Promise<Response> {
  const { stickyKey, credential } = call.candidate;
  if (stickyKey !== undefined) {
    const { conversation, requestedModel } = stickyKey;
    deps.recordProvider(conversation, requestedModel, credential.provider.id, deps.now());
  }
  return reply.kind === "whole"
    ? respondWhole(deps, call, reply)
    : respondStream(deps, call, reply);
}

async function respondWhole(
  deps: RespondDeps,
  call: HeldCall,
  reply: WholeReply,
): Promise<Response> {
  const charging =
    call.roll === undefined
      ? chargeWholeReply(call, reply, deps.now())
      : chargeCollected(deps, call, reply);
  const charged = charging instanceof Promise ? await charging : charging;
  const guard = call.input.guardrails?.output;
  const checked =
    guard === undefined ? reply : await checkReply(deps, call, { guard, reply, charged });
  const { metered, text, headers } = meterWholeReply(deps, call, checked, charged);
  // Checked before and after: the settlement of a swept hold charges only what is left.
  const confirmed = confirmHold(deps.lease, call);
  const state = confirmed === "held" ? confirmed : await confirmed;
  if (state !== "held") {
    await settle(deps.settle, call, UNSERVED);
    throw state === "lost" ? suspendedFault() : storeUnavailableFault();
  }
  const { isUncovered, isDeferred } = await settle(deps.settle, call, metered);
  if (isDeferred) throw storeUnavailableFault();
  if (isUncovered) throw suspendedFault();
  return markCommonHeaders(new Response(text, { headers }));
}

/** A reply that was collected from a stream: its hold may have rolled, and may have ended it. */
async function chargeCollected(
  deps: RespondDeps,
  call: HeldCall,
  reply: WholeReply,
): Promise<ChargedReply> {
  const { cut } = call;
  if (cut !== undefined) return { ...cut, usage: undefined, isUsageMissing: false, isEmpty: false };
  const charged = await chargeWholeReply(call, reply, deps.now());
  return { ...charged, ...(await heldCharge(deps.settle, call, charged)) };
}

interface GuardedReply {
  readonly guard: Guard;
  readonly reply: WholeReply;
  readonly charged: ChargedReply;
}

/** The provider bills a reply that a guardrail denies. */
async function checkReply(
  deps: RespondDeps,
  call: HeldCall,
  { guard, reply, charged: { charge, cost } }: GuardedReply,
): Promise<WholeReply> {
  try {
    return await checkWholeReply(guard, reply);
  } catch (fault) {
    if (!(fault instanceof Fault)) throw fault;
    const { status } = fault;
    await settle(deps.settle, call, { charge, cost, outcome: "guardrail_denied", status, fault });
    throw fault;
  }
}

/** For a reply that the caller does not get, because its hold was lost. */
const UNSERVED: MeteredReply = { ...NOTHING_BILLED, outcome: "shut_down", status: 503 };

interface MeteredResponse {
  readonly metered: MeteredReply;
  readonly text: string;
  readonly headers: Headers;
}

function meterWholeReply(
  deps: RespondDeps,
  call: HeldCall,
  reply: WholeReply,
  { charge, cost, usage, isUsageMissing, isEmpty }: ChargedReply,
): MeteredResponse {
  const { input, plan } = call;
  const costUsd = usdText(cost);
  const { text: written, dropped, contentType } = plan.writeReply(reply, usage, costUsd);
  const isCut = call.cut !== undefined;
  const text = isCut ? withCutReason(written) : written;
  const headers = responseHeaders(call, reply.headers, dropped);
  headers.set("content-type", contentType ?? "application/json");
  headers.set("x-postern-cost-usd", costUsd);
  const unstored: MeteredReply = {
    charge,
    cost,
    outcome: isCut ? "budget_cut" : outcomeOf(isEmpty, input),
    isUsageMissing,
    status: 200,
    refuseUncovered: true,
    replyLosses: dropped,
  };
  const signed = withReceipt(deps, call, { metered: unstored, text, headers });
  const isRepeatable = input.idempotent !== undefined && !isCut;
  const stored = isRepeatable ? toStoredReply(headers, text) : undefined;
  const body = input.batchItem === undefined ? undefined : text;
  const logged = logsPrompts(input) ? loggedText(headers, text) : undefined;
  const isKept = stored !== undefined || body !== undefined || logged !== undefined;
  return { metered: isKept ? { ...signed, stored, body, logged } : signed, text, headers };
}

function outcomeOf(isEmpty: boolean, { signal }: CallInput): Outcome {
  if (isEmpty) return "empty_reply";
  return signal.aborted ? "client_aborted" : "completed";
}

function withCutReason(text: string): string {
  return JSON.stringify({ ...parseObject(text), postern: { stopped_by: CUT_REASON } });
}

/** Adds the receipt to the headers, so a repetition returns it, too. */
function withReceipt(
  { now, signReceipt }: RespondDeps,
  call: HeldCall,
  { metered, text, headers }: MeteredResponse,
): MeteredReply {
  if (call.receipt === undefined) return metered;
  const responseSha256 = sha256(call.input.sentForm?.whole(text) ?? text);
  const usage = usageRecordOf(call, { ...metered, responseSha256 }, now());
  const receipt = signReceipt(usage);
  if (receipt !== undefined) headers.set(RECEIPT_HEADER, receipt);
  return { ...metered, usage };
}
