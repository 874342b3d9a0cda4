// Counts what a stream has relayed with the provider's own count of input tokens, which is free: for models whose tokenizer has
// no package. The stream is read on until the count has arrived.

import { decodeRelayedText, type StreamMeter, WIRE_TRAITS } from "@postern/wires";
import type { ShutdownSignals } from "../../streaming/relay-options.ts";
import { type AttemptDeps, attemptCandidate } from "../../upstream/attempt.ts";
import type { HeldCall } from "../call.ts";

export interface ProviderCount {
  /** How much of the relayed text is counted, in bytes as it is kept. */
  readonly length: number;
  /** Undefined until the count has arrived. */
  tokens: number | undefined;
  /** Resolves when it has arrived or failed. */
  ended?: Promise<void>;
}

export interface ProviderCountDeps {
  readonly send: AttemptDeps;
  readonly shutdownSignals: Pick<ShutdownSignals, "forced">;
}

/** Undefined if a part of the text is not kept. Without a reply of the provider the count stays unknown. */
export function startProviderCount(
  deps: ProviderCountDeps,
  call: HeldCall,
  { text }: StreamMeter,
): ProviderCount | undefined {
  if (text.omitted > 0) return undefined;
  const { length } = text;
  if (length === 0) return { length, tokens: 0 };
  const count: ProviderCount = { length, tokens: undefined };
  count.ended = countText(deps, call, decodeRelayedText(text)).then(
    (tokens) => {
      count.tokens = tokens;
    },
    () => {},
  );
  return count;
}

/** What was relayed after it was counted. */
export function uncountedText(
  text: StreamMeter["text"],
  count: ProviderCount | undefined,
): StreamMeter["text"] {
  if (count?.tokens === undefined) return text;
  const { bytes, length, omitted } = text;
  return { bytes: bytes.subarray(count.length), length: length - count.length, omitted };
}

/** One token in every tokenizer: the rest of its count is the frame of a message. */
const ONE_TOKEN = ".";

async function countText(
  deps: ProviderCountDeps,
  call: HeldCall,
  text: string,
): Promise<number | undefined> {
  const [counted, frame] = await Promise.all([
    countMessage(deps, call, text),
    countMessage(deps, call, ONE_TOKEN),
  ]);
  if (counted === undefined || frame === undefined) return undefined;
  return Math.max(0, counted - frame + 1);
}

async function countMessage(
  { send, shutdownSignals }: ProviderCountDeps,
  { input, candidate, plan }: HeldCall,
  content: string,
): Promise<number | undefined> {
  const { countWire: wire } = WIRE_TRAITS[plan.wire];
  if (wire === undefined) return undefined;
  const { messagesVersion: anthropic_version } = candidate.credential.provider;
  const messages = [{ role: "user", content }];
  const request = {
    accountId: input.caller.accountId,
    isPaying: false,
    wire,
    body: JSON.stringify({ model: candidate.upstreamName, anthropic_version, messages }),
    stream: false,
    isTranslated: false,
    forwardedHeaders: input.forwardedHeaders,
    callerSignal: NEVER,
    isCanceled: () => shutdownSignals.forced.aborted,
  };
  const result = await attemptCandidate(candidate, request, [], send);
  if (!result.ok || result.reply.kind !== "whole") return undefined;
  const { input_tokens: tokens } = result.reply.json;
  return typeof tokens === "number" ? tokens : undefined;
}

/** The caller has left already. */
const NEVER = { aborted: false };
