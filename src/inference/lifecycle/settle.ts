// Settles a call: the charge, its usage record and the reply kept for a repetition, in one transaction of the ledger.

import { createHash } from "node:crypto";
import { isObject, parseJson } from "../../base/json.ts";
import type { Log } from "../../base/log.ts";
import { usdText } from "../../base/money/money.ts";
import { parseTraceParent } from "../../base/network/trace-parent.ts";
import type { IdempotentCall } from "../../http/request/idempotent-call.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Outcome, ReceiptDetail, UsageRecord } from "../../usage/usage.ts";
import { tokenTotals } from "../metering/charge.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import type { SettledReply } from "../streaming/relay-options.ts";
import { stopRollingHold } from "../streaming/rolling-hold.ts";
import type { FailedCandidate } from "../upstream/attempt.ts";
import type { AbandonedCalls } from "./abandoned-calls.ts";
import type { ItemSettlement } from "./batch-item.ts";
import {
  type CallInput,
  type HeldCall,
  logsPrompts,
  type MeteredReply,
  type ResponseWrite,
  type SettledCall,
  type StatefulCall,
} from "./call.ts";
import type { TokenRateLimit } from "./enforce-key-policy.ts";
import type { HeldCredit } from "./hold/held-credit.ts";
import { releaseHold } from "./hold/hold.ts";
import {
  type BilledCharge,
  chargeAbandoned,
  chargeCut,
  chargeHold,
  chargeTail,
  chargeUsage,
  NOTHING_BILLED,
  withinHold,
} from "./reply/meter.ts";
import { isUncovered, uncoveredUsage } from "./uncovered-call.ts";

export interface SettleDeps {
  readonly ledger: Pick<Ledger<SettledCall>, "settle" | "raise">;
  readonly heldCredit: Pick<HeldCredit, "release">;
  readonly log: Log;
  readonly now: () => number;
  readonly abandonedCalls: Pick<AbandonedCalls, "count">;
  readonly tokenCounts: Pick<TokenRateLimit, "add">;
  /** Feeds the statistics that routing sorts by; only calls of paying accounts count. */
  readonly recordOutcome: (usage: UsageRecord, now: number) => void;
  readonly onSettled?: ((usage: UsageRecord, call: HeldCall) => void) | undefined;
}

/** The most dropped fields that one usage record lists. */
const DROPPED_MAX = 50;
const DROPPED_PATH_MAX_LENGTH = 200;

/**
 * A failure of the provider, or the end of the drain, costs nothing. A caller that left pays for what the provider has
 * received, and a reply for which the gateway stopped waiting is charged.
 */
export async function settleFailed(
  deps: SettleDeps,
  call: HeldCall,
  failed: FailedCandidate,
): Promise<void> {
  const { fault, isClientGone } = failed;
  const billed = await heldCharge(deps, call, await chargeFailed(call, failed, deps.now()));
  const countsAsAbandoned = isClientGone || billed.cost > 0n;
  const outcome = failedOutcome(failed);
  await settle(deps, call, { ...billed, outcome, status: fault.status, countsAsAbandoned, fault });
}

function failedOutcome({ fault, isClientGone, isShutDown, tail, isCut }: FailedCandidate): Outcome {
  if (isClientGone) return "client_aborted";
  if (isCut === true) return "budget_cut";
  if (isShutDown === true) return "shut_down";
  if (tail !== undefined) return "limit_exceeded";
  return fault.code === "upstream_timeout" ? "upstream_timeout" : "upstream_error";
}

async function chargeFailed(
  call: HeldCall,
  { isClientGone, wasSent, tail, isTimedOut, isCut, usage }: FailedCandidate,
  now: number,
): Promise<BilledCharge> {
  if (usage !== undefined) return chargeUsage(call, usage, now);
  if (isCut === true) return withinHold(call, await chargeCut(call, undefined, now));
  if (tail !== undefined) return chargeTail(call, tail, now);
  if (isClientGone && wasSent) return chargeAbandoned(call, undefined, now);
  // Through a tool that the provider calls, such as an MCP server of the caller, a model's output reaches the caller.
  const isAbandoned = call.input.signal.aborted || call.request.toolCalls > 0;
  return isTimedOut === true && isAbandoned ? chargeHold(call, undefined, now) : NOTHING_BILLED;
}

/** The cache keeps no reply that another identical call could have been better served than with. */
function repeatableReply(
  { outputMax }: HeldCall,
  { maxAgeMs }: IdempotentCall,
  { outcome, stored }: MeteredReply,
): MeteredReply["stored"] {
  const isAsAsked = outcome === "completed" && outputMax === undefined;
  return maxAgeMs === undefined || isAsAsked ? stored : undefined;
}

/** A provider may report more than a rolling hold has covered so far: the hold is raised to it, as far as that is affordable. */
export function heldCharge(
  { ledger, now }: Pick<SettleDeps, "ledger" | "now">,
  call: HeldCall,
  billed: BilledCharge,
): BilledCharge | Promise<BilledCharge> {
  const { roll, hold } = call;
  if (roll === undefined || billed.cost <= hold.amount) return billed;
  return ledger.raise({ ...roll.call.request, amount: billed.cost, now: now() }).then(
    (outcome) => {
      if (outcome.status === "raised") hold.amount = outcome.amount;
      return withinHold(call, billed);
    },
    () => withinHold(call, billed),
  );
}

export async function settle(
  deps: SettleDeps,
  call: HeldCall,
  metered: MeteredReply,
): Promise<SettledReply> {
  const { ledger, log } = deps;
  const { input, statefulCall } = call;
  const now = deps.now();
  const usage = usageRecordOf(call, metered, now);
  const { id: request_id, model } = usage;
  deps.tokenCounts.add(input.caller, usage.inputTokens + usage.outputTokens, now);
  const { refuseUncovered = false } = metered;
  warnAboutUsage(log, usage, metered);
  const idempotent = input.idempotent && {
    call: input.idempotent,
    reply: repeatableReply(call, input.idempotent, metered),
  };
  try {
    const response = storedResponse(statefulCall, usage.outcome);
    const item = itemOf(call, metered);
    const prompt = promptOf(call, metered);
    const isExported = input.caller.exportsUsage === true;
    const record = { usage, idempotent, response, item, prompt, isExported };
    const { id, accountId, keyId } = usage;
    const settled = await ledger.settle({
      id,
      accountId,
      keyId,
      cost: metered.cost,
      now,
      refuseUncovered,
      record,
      sessionId: sessionIdOf(call),
      batch: item && input.batchItem,
    });
    if (settled.status === "deferred") {
      log.warn("the store is unavailable: the settlement of a call is retried", { request_id });
      deps.onSettled?.(refuseUncovered ? uncoveredUsage(usage, false) : usage, call);
      return { isUncovered: false, isDeferred: true };
    }
    if (settled.status === "settled" && settled.overrun > 0n) {
      const owed_usd = usdText(settled.overrun);
      log.warn("call cost more than the credits of its account", { request_id, model, owed_usd });
    }
    const uncovered = isUncovered(settled);
    deps.onSettled?.(uncovered ? uncoveredUsage(usage, !refuseUncovered) : usage, call);
    return { isUncovered: uncovered, isDeferred: false };
  } catch (cause) {
    log.error("call could not be settled", { request_id, cause });
    // The caller does not see the call complete, so its credits must at least not stay held.
    await releaseHold(deps, call).catch(() => {});
    throw cause;
  } finally {
    endTracking(call);
    deps.heldCredit.release(usage.accountId);
    const countsAsAbandoned = metered.countsAsAbandoned ?? usage.outcome === "client_aborted";
    if (countsAsAbandoned && !usage.byok) deps.abandonedCalls.count(usage.keyId, now);
    if (call.hold.isPaying) deps.recordOutcome(usage, now);
  }
}

/** What the caller did not get is not stored either. */
function storedResponse(
  statefulCall: StatefulCall | undefined,
  outcome: Outcome,
): ResponseWrite | undefined {
  const isWithheld = outcome === "budget_cut" || outcome === "guardrail_denied";
  return isWithheld ? undefined : statefulCall?.storeReply();
}

/** The result of an item of a batch, if this call is its last. */
function itemOf(
  { input: { batchItem, requestId } }: HeldCall,
  { cost, status, body, fault }: MeteredReply,
): ItemSettlement | undefined {
  return batchItem?.toSettlement({ requestId, cost, status, body, fault });
}

function promptOf({ input, request }: HeldCall, { logged }: MeteredReply): SettledCall["prompt"] {
  if (!logsPrompts(input)) return undefined;
  const { promptRetentionDays: retentionDays } = input.caller;
  return { request: withoutMcpSecrets(request, input.text), reply: logged, retentionDays };
}

function endTracking({ roll, untrack }: HeldCall): void {
  if (roll !== undefined) stopRollingHold(roll);
  untrack();
}

function sessionIdOf({ input: { session } }: HeldCall): string | undefined {
  return session?.id;
}

function warnAboutUsage(
  log: Log,
  { id: request_id, model, provider }: UsageRecord,
  { charge: { missingPrices }, isUsageMissing }: MeteredReply,
): void {
  if (missingPrices.length > 0)
    log.warn("usage billed at a fallback price", {
      request_id,
      model,
      missing_prices: missingPrices,
    });
  if (isUsageMissing === true)
    log.warn("provider reported no usage, so the call was charged by a count of its tokens", {
      request_id,
      model,
      provider,
    });
}

export function usageRecordOf(call: HeldCall, metered: MeteredReply, now: number): UsageRecord {
  if (metered.usage !== undefined) return metered.usage;
  const { input, request, candidate, attempts, mcp } = call;
  const { charge, cost, outcome, status, firstTokenMs } = metered;
  const { credential, model } = candidate;
  const totals = tokenTotals(charge.usage);
  return {
    id: input.requestId,
    accountId: input.caller.accountId,
    keyId: input.caller.keyId,
    createdAt: input.now,
    model: model.id,
    provider: credential.provider.id,
    api: request.api,
    stream: request.stream,
    outcome,
    status,
    inputTokens: totals.inputTokens,
    cacheReadTokens: totals.cacheReadTokens,
    cacheWriteTokens: totals.cacheWriteTokens,
    outputTokens: totals.outputTokens,
    reasoningTokens: totals.reasoningTokens,
    price: charge.lines,
    attempts,
    cost,
    byok: credential.byok,
    exact: charge.exact,
    latencyMs: Math.max(0, now - input.now),
    firstTokenMs: firstTokenMs ?? null,
    labels: input.labels,
    dropped: droppedPaths(call.plan.dropped, metered.replyLosses),
    guardrails: guardrailChecks(input),
    mcpCalls: mcp === undefined || mcp.calls.length === 0 ? undefined : [...mcp.calls],
    traceId: parseTraceParent(input.headers.get("traceparent"))?.traceId,
    receipt: receiptDetail(call, metered),
  };
}

function guardrailChecks({ guardrails }: CallInput): UsageRecord["guardrails"] {
  return guardrails === undefined || guardrails.checks.length === 0
    ? undefined
    : [...guardrails.checks];
}

function receiptDetail(
  { input, request, candidate: { model }, receipt }: HeldCall,
  { responseSha256 }: MeteredReply,
): ReceiptDetail | undefined {
  if (receipt === undefined || responseSha256 === undefined) return undefined;
  return {
    requestedModel: request.model,
    requestSha256: input.batchItem?.response?.requestSha256 ?? sha256(input.received ?? input.text),
    responseSha256,
    priceSource: model.source,
    priceChecked: model.checked,
    quoteId: receipt.quoteId,
  };
}

export function sha256(text: string | Uint8Array): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Undefined if nothing was dropped. Duplicates are removed, because each message may have lost the same field. */
function droppedPaths(
  request: readonly string[],
  reply: readonly string[] = [],
): readonly string[] | undefined {
  if (request.length + reply.length === 0) return undefined;
  const paths = [...new Set([...request, ...reply])].slice(0, DROPPED_MAX);
  return paths.map((path) => path.slice(0, DROPPED_PATH_MAX_LENGTH));
}

const MCP_TOKENS: ReadonlySet<string> = new Set(["authorization", "authorization_token"]);
const REDACTED = "[redacted]";

/** What is stored of a request does not have its secrets for MCP servers. */
function withoutMcpSecrets({ hasMcp }: Pick<ParsedRequest, "hasMcp">, text: string): string {
  const json = hasMcp ? parseJson(text) : undefined;
  return json === undefined ? text : JSON.stringify(json, redact);
}

function redact(name: string, value: unknown): unknown {
  if (MCP_TOKENS.has(name) && typeof value === "string") return REDACTED;
  if (name !== "headers" || !isObject(value)) return value;
  return Object.fromEntries(Object.keys(value).map((header) => [header, REDACTED]));
}
