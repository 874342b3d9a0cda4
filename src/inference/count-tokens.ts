// POST /v1/messages/count_tokens: the provider's own count, relayed, where it has one; else an upper bound that says what
// it is. It costs nothing and holds nothing.

import { createStop } from "../base/stop.ts";
import { limitsOf } from "../models/catalog.ts";
import { type Ask, readAsk } from "./ask.ts";
import { tryCandidate } from "./attempt.ts";
import type { Candidate } from "./candidates.ts";
import type { CallInput, InferParts } from "./call.ts";
import { inputBound } from "./input-bound.ts";
import { withMembers } from "./json-edit.ts";
import { OWN_MEMBERS } from "./routing-preferences.ts";
import { candidatesOf } from "./routing.ts";
import { refusedOnShared } from "./tenant-guard.ts";
import { refuseFrozen } from "./try-legs.ts";

export async function countTokens(parts: InferParts, input: CallInput): Promise<Response> {
  const ask = readAsk("messages", input.text, "count");
  await refuseFrozen(parts, input.caller.accountId);
  const { accountId } = input.caller;
  const [candidate] = await candidatesOf(ask, "count_tokens", accountId, parts);
  const refusal = refusedOnShared(ask);
  if (refusal !== undefined && !candidate.credential.byok) throw refusal;
  if (candidate.wires[0] !== "count_tokens") return bounded(ask, candidate);
  const model =
    candidate.upstreamName === ask.model ? {} : { model: JSON.stringify(candidate.upstreamName) };
  const { messagesVersion } = candidate.credential.provider;
  const version =
    messagesVersion === undefined ? {} : { anthropic_version: JSON.stringify(messagesVersion) };
  const body = withMembers(ask.text, ask.spans, {
    ...Object.fromEntries(OWN_MEMBERS.map((own) => [own, undefined])),
    ...model,
    ...version,
    stream: undefined,
  });
  const abort = createStop();
  const leave = (): void => abort.abort();
  input.signal.addEventListener("abort", leave);
  const trial = {
    accountId,
    wire: "count_tokens",
    stream: false,
    translated: false,
    headers: input.headers,
    abort,
    body,
  } as const;
  const result = await tryCandidate(candidate, trial, [], parts);
  input.signal.removeEventListener("abort", leave);
  if (!result.ok) throw result.fault;
  if (result.answered.kind !== "whole") throw new Error("a count is not streamed");
  return new Response(result.answered.text, {
    headers: { ...result.answered.headers, "content-type": "application/json" },
  });
}

// No tokenizer makes more tokens of a text than it has bytes: a caller that plans with this never falls short.
function bounded(ask: Ask, { model, credential }: Candidate): Response {
  const input_tokens = inputBound(ask.text, ask.json, {
    imageTokensMax: credential.provider.imageTokensMax,
    contextTokens: limitsOf(model).input,
  });
  return Response.json({ input_tokens }, { headers: { "x-postern-count": "upper-bound" } });
}
