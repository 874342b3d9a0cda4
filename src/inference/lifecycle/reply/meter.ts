// Prices a call. The provider's usage decides. If the client left before it arrived, the input is estimated and the relayed
// output is counted; if the provider failed without reporting usage, the call costs nothing.

import { type Usage, type StreamMeter, usageSoFar, lastUsageIn } from "@postern/wires";
import { usdText } from "../../../base/money/money.ts";
import { limitsOf } from "../../../models/catalog.ts";
import { chargeFor, estimatedUsage, isEmptyUsage, NO_CHARGE } from "../../metering/charge.ts";
import { estimateInputTokens } from "../../metering/input-estimate.ts";
import type { StreamSettlement } from "../../streaming/relay-options.ts";
import type { HeldCall, MeteredReply } from "../call.ts";
import { cappedAt } from "../hold/cost-ceiling.ts";

/** A charge, and what the account pays of it: nothing if the provider bills the caller's own key. */
export type BilledCharge = Pick<MeteredReply, "charge" | "cost">;

export const NOTHING_BILLED: BilledCharge = { charge: NO_CHARGE, cost: 0n };

/** The usage of a whole reply, or of a stream so far. */
export function chargeUsage(
  { catalog, pricedAt, candidate, estimate, hold, input, ceiling }: HeldCall,
  usage: Usage | undefined,
  endedAt: number,
): BilledCharge {
  if (usage === undefined) return NOTHING_BILLED;
  const { model, credential } = candidate;
  const charge = chargeFor(usage, {
    catalog,
    model,
    estimate,
    held: hold.amount,
    at: pricedAt,
    durationMs: endedAt - input.now,
  });
  if (credential.byok) return { charge, cost: 0n };
  // The caller's ceiling is a promise, whatever the provider bills.
  const cost = cappedAt(charge.cost, ceiling);
  return { charge: cost === charge.cost ? charge : { ...charge, cost }, cost };
}

export function chargeStream(
  call: HeldCall,
  meter: StreamMeter,
  { isWhole, isAbandoned, isGivenUp }: StreamSettlement,
  endedAt: number,
): BilledCharge {
  const usage = usageSoFar(meter);
  const isFinal = usage !== undefined && meter.isUsageFinal;
  if (isFinal && (isWhole || isAbandoned || !isEmptyUsage(usage)))
    return chargeUsage(call, usage, endedAt);
  if (isGivenUp) return chargeHold(call, meter, endedAt);
  return isAbandoned ? chargeAbandoned(call, meter, endedAt) : NOTHING_BILLED;
}

/** What was not read of the reply may have cost as much as the hold covers. */
export function chargeHold(
  call: HeldCall,
  meter: StreamMeter | undefined,
  endedAt: number,
): BilledCharge {
  const { charge } = chargeAbandoned(call, meter, endedAt);
  if (call.candidate.credential.byok) return { charge, cost: 0n };
  const { amount } = call.hold;
  const lines = [{ meter: "hold", count: 1, usd: usdText(amount) }];
  return { charge: { ...charge, lines, cost: amount, missingPrices: [] }, cost: amount };
}

/** `tail`: the end of a whole reply that is too long to be read, where its usage is. */
export function chargeTail(call: HeldCall, tail: string, endedAt: number): BilledCharge {
  const usage = lastUsageIn(tail);
  const read = usage && call.plan.readUsage({ usage, usageMetadata: usage });
  return read === undefined
    ? chargeHold(call, undefined, endedAt)
    : chargeUsage(call, read, endedAt);
}

/**
 * The client left, or the gateway stopped, before the final usage. The provider has the request, so at least its input is
 * charged. `meter` is undefined if no event has arrived.
 */
export function chargeAbandoned(
  call: HeldCall,
  meter: StreamMeter | undefined,
  endedAt: number,
): BilledCharge {
  const { request, candidate, hold } = call;
  const { model, credential } = candidate;
  const partial = {
    reported: meter && usageSoFar(meter),
    outputBytes: meter?.outputBytes ?? 0,
    outputAudioBytes: meter?.outputAudioBytes ?? 0,
    fees: meter?.fees ?? {},
    model: meter?.model,
  };
  const inputTokens = (): number =>
    estimateInputTokens(request.json, { model: model.id, contextTokens: limitsOf(model).input });
  const { charge, cost } = chargeUsage(call, estimatedUsage(partial, inputTokens), endedAt);
  const paid = cost > hold.amount ? hold.amount : cost;
  return {
    charge: { ...charge, exact: false, cost: credential.byok ? charge.cost : paid },
    cost: paid,
  };
}
