// POST /v1/messages/count_tokens: the provider's own count, relayed. It costs nothing and holds nothing.

import { readAsk } from "./ask.ts";
import { tryCandidate } from "./attempt.ts";
import { candidatesOf } from "./candidates.ts";
import type { CallInput, InferParts } from "./infer.ts";
import { withMembers } from "./json-edit.ts";
import { foreignReference, refuseReference } from "./tenant-guard.ts";

export async function countTokens(parts: InferParts, input: CallInput): Promise<Response> {
  const ask = readAsk("messages", input.text, "count");
  const [candidate] = await candidatesOf(ask, "count_tokens", input.caller.accountId, {
    ...parts,
    catalog: parts.catalog.current(),
  });
  const reference = foreignReference(ask);
  if (reference !== undefined && !candidate.credential.byok) throw refuseReference(reference);
  const model =
    candidate.upstreamName === ask.model ? {} : { model: JSON.stringify(candidate.upstreamName) };
  const body = withMembers(ask.text, ask.spans, { ...model, stream: undefined });
  const abort = new AbortController();
  const leave = (): void => abort.abort();
  input.signal.addEventListener("abort", leave);
  const trial = {
    wire: "count_tokens",
    stream: false,
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
