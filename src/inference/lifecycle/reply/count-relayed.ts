// The tokens of a call that ends without the provider's usage: its input, and the output that was relayed.

import { decodeRelayedText, type StreamMeter, type Usage, usageSoFar } from "@postern/wires";
import { parseObject } from "../../../base/json.ts";
import { limitsOf } from "../../../models/catalog.ts";
import { hasInputTokens } from "../../metering/charge.ts";
import { BYTES_PER_TOKEN } from "../../metering/input-bound.ts";
import { estimateInputTokens } from "../../metering/input-estimate.ts";
import { countInput, isInputCountable, isOpenAiWire } from "../../metering/tokens/count-input.ts";
import type { Encoding } from "../../metering/tokens/count-worker.ts";
import { countTextTokens, encodingOf } from "../../metering/tokens/tokenizer.ts";
import { commonForm } from "../../request/common-form.ts";
import type { HeldCall } from "../call.ts";
import { type ProviderCount, uncountedText } from "./count-at-provider.ts";

export interface CountedTokens {
  readonly input: Usage["tokens"];
  readonly output: number;
}

/** `meter` is undefined if no event has arrived. */
export async function countTokens(
  call: HeldCall,
  meter: StreamMeter | undefined,
  count?: ProviderCount,
): Promise<CountedTokens> {
  const { model, credential } = call.candidate;
  // Nothing depends on the count of a call that costs nothing here.
  if (credential.byok) return roughTokens(call, meter);
  // For a family whose tokenizer has no package: most have about as many tokens or more.
  const encoding = encodingOf(model.id) ?? "o200k_base";
  const isInputReported = hasInputTokens(meter && usageSoFar(meter));
  try {
    return {
      input: isInputReported ? {} : { input: await countCallInput(call, encoding) },
      output: meter === undefined ? 0 : await countOutput(meter, encoding, count),
    };
  } catch {
    // The thread that counts has failed, for example for want of memory. The call must be settled all the same.
    return roughTokens(call, meter);
  }
}

function roughTokens(
  { request, candidate }: HeldCall,
  meter: StreamMeter | undefined,
): CountedTokens {
  const { id, limits } = { id: candidate.model.id, limits: limitsOf(candidate.model) };
  const input = estimateInputTokens(commonForm(request), {
    model: id,
    contextTokens: limits.input,
  });
  return { input: { input }, output: Math.ceil((meter?.outputBytes ?? 0) / BYTES_PER_TOKEN) };
}

async function countCallInput(call: HeldCall, encoding: Encoding): Promise<number> {
  const { request, candidate, plan } = call;
  const { model } = candidate;
  const body = isOpenAiWire(plan.wire) ? parseObject(plan.body) : undefined;
  if (body !== undefined && isInputCountable(body)) return countInput(body, encoding);
  return estimateInputTokens(commonForm(request), {
    model: model.id,
    contextTokens: limitsOf(model).input,
  });
}

async function countOutput(
  { text: relayed, toolCalls }: StreamMeter,
  encoding: Encoding,
  count: ProviderCount | undefined,
): Promise<number> {
  const text = uncountedText(relayed, count);
  const counted = count?.tokens ?? 0;
  if (text.length === 0) return counted;
  const tokens = await countTextTokens(decodeRelayedText(text), encoding);
  const share = (text.length + text.omitted) / text.length;
  return counted + Math.floor(tokens * share) + toolCallTokens(toolCalls);
}

/** The least that recorded calls of OpenAI's models have beside the names and arguments. */
function toolCallTokens(calls: number): number {
  return calls < 2 ? 7 * calls : 8 + 8 * calls;
}
