// Prices what a call has used: by the provider's usage; by what was relayed if the client left before it came; at nothing
// if the provider failed without it.

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
import { estimateInputTokens } from "../metering/input-bound.ts";
import { type StreamMeter, usageSoFar } from "../metering/usage/stream-meter.ts";
import type { StreamOutcome } from "../streaming/relay.ts";
import type { HeldCall } from "./call.ts";

/** The usage of a whole reply, or of a stream so far. */
export function chargeUsage(call: HeldCall, usage: Usage | undefined): UsageCharge {
  return usage === undefined ? NO_CHARGE : chargeFor(usage, chargeContext(call));
}

export function chargeStream(
  call: HeldCall,
  meter: StreamMeter,
  outcome: StreamOutcome,
): UsageCharge {
  const usage = usageSoFar(meter);
  const isFinal = usage !== undefined && meter.isUsageFinal;
  if (outcome === "client_aborted")
    return isFinal ? chargeUsage(call, usage) : chargeRelayed(call, meter);
  if (!isFinal || (outcome !== "completed" && isEmptyUsage(usage))) return NO_CHARGE;
  return chargeUsage(call, usage);
}

// The client left before the final usage: what was relayed is counted.
function chargeRelayed(call: HeldCall, meter: StreamMeter): UsageCharge {
  const usage = usageSoFar(meter);
  const { outputBytes } = meter;
  if (outputBytes === 0 && usage === undefined) return NO_CHARGE;
  const { request, candidate, held } = call;
  const inputTokens = (): number =>
    estimateInputTokens(request.text, request.json, limitsOf(candidate.model).input);
  const charge = chargeFor(estimatedUsage(usage, outputBytes, inputTokens), chargeContext(call));
  const cost = charge.cost > held && !candidate.credential.byok ? held : charge.cost;
  return { ...charge, exact: false, cost };
}

/** What the account pays: nothing if the provider bills the caller's own key. */
export function billedCost({ candidate }: HeldCall, charge: UsageCharge): bigint {
  return candidate.credential.byok ? 0n : charge.cost;
}

function chargeContext({ catalog, candidate, estimate, held, input }: HeldCall): ChargeContext {
  return { catalog, model: candidate.model, estimate, held, at: input.now };
}
