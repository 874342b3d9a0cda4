// Prices a call. The provider's usage decides. If the client left before it arrived, or the provider does not report it, the
// tokens are counted; if the provider failed without reporting usage, the call costs nothing.

import {
  API_TRAITS,
  isEmptyReply,
  isStreamedWire,
  lastUsageIn,
  meterWholeReply,
  type StreamMeter,
  type Usage,
  usageSoFar,
} from "@postern/wires";
import { type JsonObject, parseObject } from "../../../base/json.ts";
import { maxNano, minNano, type Nano, usdText } from "../../../base/money/money.ts";
import { chargeFor, estimatedUsage, isEmptyUsage, NO_CHARGE } from "../../metering/charge.ts";
import { costOfToolCalls, estimateCost } from "../../metering/cost-estimate.ts";
import { hasUnknownField } from "../../shared-account/known-types.ts";
import type { StreamSettlement } from "../../streaming/relay-options.ts";
import { generatedBy } from "../../streaming/rolling-hold.ts";
import type { HeldCall, MeteredReply } from "../call.ts";
import { cappedAt } from "../hold/cost-ceiling.ts";
import { endsBill } from "./client-disconnect.ts";
import type { ProviderCount } from "./count-at-provider.ts";
import { countTokens } from "./count-relayed.ts";

/** A charge, and what the account pays of it: nothing if the provider bills the caller's own key. */
export type BilledCharge = Pick<MeteredReply, "charge" | "cost">;

export const NOTHING_BILLED: BilledCharge = { charge: NO_CHARGE, cost: 0n };

/** The usage of a whole reply, or of a stream so far. */
export function chargeUsage(
  call: HeldCall,
  usage: Usage | undefined,
  endedAt: number,
  outputBytes = 0,
): BilledCharge {
  if (usage === undefined) return NOTHING_BILLED;
  const { catalog, pricedAt, candidate, estimate, hold, input, ceiling, plan } = call;
  const { model, credential } = candidate;
  const charge = chargeFor(usage, {
    catalog,
    model,
    estimate,
    held: hold.limit,
    at: pricedAt,
    durationMs: endedAt - input.now,
    outputBytes,
    hasUnknownFields: () => !plan.isTranslated && hasUnknownField(parseObject(plan.body) ?? {}),
  });
  if (credential.byok) return { charge, cost: 0n };
  // The caller's ceiling is a promise, whatever the provider bills.
  const cost = cappedAt(charge.cost, ceiling);
  return { charge: cost === charge.cost ? charge : { ...charge, cost }, cost };
}

/** The charge of a whole reply, and the usage that the provider reports for it. */
export interface ChargedReply extends BilledCharge {
  readonly usage: Usage | undefined;
  /** Whether the charge is a count, because the provider reports no usage. */
  readonly isUsageMissing: boolean;
  readonly isEmpty: boolean;
}

export function chargeWholeReply(
  call: HeldCall,
  { json, text }: { readonly json: JsonObject; readonly text: string },
  endedAt: number,
): ChargedReply | Promise<ChargedReply> {
  const { plan, candidate } = call;
  const usage = plan.readUsage(json);
  if (usage !== undefined && !isEmptyUsage(usage)) {
    const { charge, cost } = chargeUsage(call, usage, endedAt, text.length);
    return { usage, isUsageMissing: false, isEmpty: false, charge, cost };
  }
  const charged = { usage, isUsageMissing: false, isEmpty: false };
  if (plan.isEmpty?.(json) === true) return { ...charged, ...NOTHING_BILLED, isEmpty: true };
  // Without usage, or without output in it, the reply itself is read.
  const { wire } = plan;
  const meter =
    isStreamedWire(wire) && plan.loop === undefined
      ? meterWholeReply(wire, candidate.credential.provider.id, json)
      : undefined;
  if (meter !== undefined && isEmptyReply(meter))
    return { ...charged, ...NOTHING_BILLED, isEmpty: true };
  if (usage !== undefined && !isOutputUnreported(meter, usage))
    return { ...charged, ...chargeUsage(call, usage, endedAt, text.length) };
  return chargeUnreported(call, { meter, count: undefined }, endedAt).then((billed) => ({
    ...charged,
    ...billed,
    isUsageMissing: true,
  }));
}

/** Whether the usage has only invalid numbers for a reply that has content. Zeros are valid: the provider bills nothing. */
export function isOutputUnreported(meter: StreamMeter | undefined, usage: Usage): boolean {
  if (usage.isClamped !== true || !isEmptyUsage(usage) || (usage.statedCostUsd ?? 0) > 0)
    return false;
  return meter !== undefined && meter.outputBytes + meter.outputAudioBytes > 0;
}

/**
 * A complete reply whose provider does not report its usage is counted. Nothing but usage tells what the tools of the
 * provider had the model read, so then the hold is charged.
 */
function chargeUnreported(
  call: HeldCall,
  {
    meter,
    count,
  }: { readonly meter: StreamMeter | undefined; readonly count: ProviderCount | undefined },
  endedAt: number,
): Promise<BilledCharge> {
  return call.request.toolCalls > 0 || hasUncountedOutput(call)
    ? chargeHold(call, meter, endedAt)
    : chargeAbandoned(call, meter, endedAt, { count });
}

/** Images are no text whose tokens could be counted. */
function hasUncountedOutput({ request, estimate }: HeldCall): boolean {
  return API_TRAITS[request.api].relayed !== undefined && estimate.outputTokens > 0;
}

/** What is known of a stream: its events, and the provider's count of what was relayed. */
export interface MeteredStream {
  readonly meter: StreamMeter;
  readonly count: ProviderCount | undefined;
}

export function chargeStream(
  call: HeldCall,
  { meter, count }: MeteredStream,
  { isWhole, isAbandoned, isBillOpen }: StreamSettlement,
  endedAt: number,
): BilledCharge | Promise<BilledCharge> {
  const usage = usageSoFar(meter);
  const isFinal = usage !== undefined && meter.isUsageFinal;
  if (isWhole && isNothing(meter, usage)) return NOTHING_BILLED;
  if (
    isFinal &&
    (isWhole || isAbandoned || !isEmptyUsage(usage)) &&
    !isOutputUnreported(meter, usage)
  )
    return chargeUsage(call, usage, endedAt, meter.outputBytes);
  if (isBillOpen) return chargeHold(call, meter, endedAt);
  if (isWhole) return chargeUnreported(call, { meter, count }, endedAt);
  if (isAbandoned) return chargeAbandoned(call, meter, endedAt, { count });
  // The connection was lost. Of a usage that the provider has stated, it bills all.
  const isStated = usage !== undefined && meter.isUsageStated && !isEmptyUsage(usage);
  return isStated && !meter.failed
    ? chargeUsage(call, usage, endedAt, meter.outputBytes)
    : NOTHING_BILLED;
}

/** A complete reply without any content, not even hidden, is the provider's failure. */
export function isNothing(meter: StreamMeter, usage: Usage | undefined): boolean {
  return isEmptyReply(meter) && (usage === undefined || isEmptyUsage(usage));
}

/** What was not read of the reply may have cost as much as the hold covers. */
export async function chargeHold(
  call: HeldCall,
  meter: StreamMeter | undefined,
  endedAt: number,
): Promise<BilledCharge> {
  const { charge, cost: counted } = await chargeAbandoned(call, meter, endedAt);
  if (call.candidate.credential.byok) return { charge, cost: 0n };
  // What was relayed beyond the output limit costs more.
  const amount = maxNano(minNano(call.hold.amount, mostBilled(call, meter)), counted);
  const lines = [{ meter: "hold", count: 1, usd: usdText(amount) }];
  return { charge: { ...charge, lines, cost: amount, missingPrices: [] }, cost: amount };
}

/** The stream shows the calls of the provider's tools; one more may have begun. */
function mostBilled(call: HeldCall, meter: StreamMeter | undefined): Nano {
  const { candidate, request, catalog, pricedAt: now, hold } = call;
  if (meter?.providerCalls === undefined) return hold.amount;
  const { model, credential } = candidate;
  const estimate = estimateCost(request, model, credential.provider, { catalog, now, byok: false });
  return costOfToolCalls(estimate, meter.providerCalls + 1);
}

/** `tail`: the end of a whole reply that is too long to be read, where its usage is. */
export async function chargeTail(
  call: HeldCall,
  tail: string,
  endedAt: number,
): Promise<BilledCharge> {
  const usage = lastUsageIn(tail);
  const read = usage && call.plan.readUsage({ usage, usageMetadata: usage });
  return read === undefined
    ? chargeHold(call, undefined, endedAt)
    : chargeUsage(call, read, endedAt);
}

/** A stream ended because no more credits could be held for it. What a model reasons is not relayed: the most of it is charged. */
export function chargeCut(
  call: HeldCall,
  meter: StreamMeter | undefined,
  endedAt: number,
  count?: ProviderCount,
): Promise<BilledCharge> {
  const { roll } = call;
  const generated =
    roll === undefined || endsBill(call) ? 0 : generatedBy(roll, roll.deps.monotonicNow());
  return chargeAbandoned(call, meter, endedAt, { count, generatedTokens: generated });
}

/**
 * What a rolling hold covers of a charge. Its rest is the operator's, because limits of keys and budgets are promises. Only
 * what costs more than the whole call may, because the provider ignores the output limit, is charged all the same.
 */
export function withinHold({ roll, hold }: HeldCall, billed: BilledCharge): BilledCharge {
  const most = hold.amount + maxNano(billed.cost - hold.limit, 0n);
  if (roll === undefined || billed.cost <= most) return billed;
  return { charge: { ...billed.charge, cost: most, exact: false }, cost: most };
}

interface AbandonedOutput {
  readonly count?: ProviderCount | undefined;
  /** The most that the provider may have generated, if some of it is hidden. */
  readonly generatedTokens?: number;
}

/**
 * The client left, or the gateway stopped, before the final usage. The provider has the request, so at least its input is
 * charged. `meter` is undefined if no event has arrived.
 */
export async function chargeAbandoned(
  call: HeldCall,
  meter: StreamMeter | undefined,
  endedAt: number,
  { count, generatedTokens = 0 }: AbandonedOutput = {},
): Promise<BilledCharge> {
  const { candidate, hold } = call;
  const { credential } = candidate;
  const { input, output } = await countTokens(call, meter, count);
  const partial = {
    reported: meter && usageSoFar(meter),
    outputTokens: Math.max(output, generatedTokens),
    outputAudioBytes: meter?.outputAudioBytes ?? 0,
    fees: meter?.fees ?? {},
    model: meter?.model,
  };
  const { charge, cost } = chargeUsage(
    call,
    estimatedUsage(partial, input),
    endedAt,
    meter?.outputBytes,
  );
  // A count of the input alone stays within the hold. More was relayed only if the provider ignores the output limit.
  const { outputMax, estimate, request } = call;
  const sentMax = outputMax === undefined ? estimate.outputTokens : outputMax * request.choices;
  const isBeyondLimit = output > sentMax;
  const paid = cost > hold.limit && !isBeyondLimit ? hold.limit : cost;
  return {
    charge: { ...charge, exact: false, cost: credential.byok ? charge.cost : paid },
    cost: paid,
  };
}
