// Prices what a call has used: by the provider's usage; by an estimate of its input and what was relayed if the client left
// before the usage came; at nothing if the provider failed without it.

import type { Usage } from "../../base/usage-meters.ts";
import { limitsOf } from "../../models/catalog.ts";
import {
  chargeFor,
  type ChargeContext,
  estimatedUsage,
  isEmptyUsage,
  NO_CHARGE,
  type UsageCharge,
} from "../metering/charge.ts";
import { estimateInputTokens } from "../metering/input-estimate.ts";
import { type StreamMeter, usageSoFar } from "../metering/usage/stream-meter.ts";
import type { StreamOutcome } from "../streaming/relay-options.ts";
import type { HeldCall } from "./call.ts";

/** The usage of a whole reply, or of a stream so far. */
export function chargeUsage(
  call: HeldCall,
  usage: Usage | undefined,
  endedAt: number,
): UsageCharge {
  return usage === undefined ? NO_CHARGE : chargeFor(usage, chargeContext(call, endedAt));
}

export function chargeStream(
  call: HeldCall,
  meter: StreamMeter,
  { outcome, endedAt }: { readonly outcome: StreamOutcome; readonly endedAt: number },
): UsageCharge {
  const usage = usageSoFar(meter);
  const isFinal = usage !== undefined && meter.isUsageFinal;
  if (outcome === "client_aborted" || outcome === "shut_down")
    return isFinal ? chargeUsage(call, usage, endedAt) : chargeAbandoned(call, meter, endedAt);
  if (!isFinal || (outcome !== "completed" && isEmptyUsage(usage))) return NO_CHARGE;
  return chargeUsage(call, usage, endedAt);
}

/**
 * The client left, or the gateway stopped, before the final usage. The provider has the request, so its input is charged at least; `meter` is
 * undefined if no event has arrived.
 */
export function chargeAbandoned(
  call: HeldCall,
  meter: StreamMeter | undefined,
  endedAt: number,
): UsageCharge {
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
  const charge = chargeFor(estimatedUsage(partial, inputTokens), chargeContext(call, endedAt));
  const cost = charge.cost > hold.amount && !credential.byok ? hold.amount : charge.cost;
  return { ...charge, exact: false, cost };
}

/** What the account pays: nothing if the provider bills the caller's own key. */
export function billedCost({ candidate }: HeldCall, charge: UsageCharge): bigint {
  return candidate.credential.byok ? 0n : charge.cost;
}

function chargeContext(
  { catalog, pricedAt, candidate, estimate, hold, input }: HeldCall,
  endedAt: number,
): ChargeContext {
  const durationMs = endedAt - input.now;
  const { model } = candidate;
  return { catalog, model, estimate, held: hold.amount, at: pricedAt, durationMs };
}
