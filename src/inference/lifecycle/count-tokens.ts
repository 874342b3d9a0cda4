// POST /v1/messages/count_tokens: the provider's own count, relayed, where it has one; else an upper bound that says what
// it is. It costs nothing and holds nothing.

import { createAbort } from "../../base/abort.ts";
import { limitsOf } from "../../models/catalog.ts";
import { type ParsedRequest, parseRequest } from "../request/parse-request.ts";
import { attemptCandidate } from "../upstream/attempt.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { CallInput, InferDeps } from "./call.ts";
import { inputBound } from "../metering/input-bound.ts";
import { withMembers } from "../request/json-edit.ts";
import { GATEWAY_FIELDS } from "../routing/routing-preferences.ts";
import { findCandidates } from "../routing/routing.ts";
import { sharedCredentialsFault } from "./shared-credentials.ts";
import { rejectIfFrozen } from "./run-fallbacks.ts";

export async function countTokens(deps: InferDeps, input: CallInput): Promise<Response> {
  const request = parseRequest("messages", input.text, "count");
  await rejectIfFrozen(deps, input.caller.accountId);
  const { accountId } = input.caller;
  const [candidate] = await findCandidates(request, "count_tokens", accountId, deps);
  const sharedFault = sharedCredentialsFault(request);
  if (sharedFault !== undefined && !candidate.credential.byok) throw sharedFault;
  if (candidate.wires[0] !== "count_tokens") return upperBoundReply(request, candidate);
  const model =
    candidate.upstreamName === request.model
      ? {}
      : { model: JSON.stringify(candidate.upstreamName) };
  const { messagesVersion } = candidate.credential.provider;
  const version =
    messagesVersion === undefined ? {} : { anthropic_version: JSON.stringify(messagesVersion) };
  const body = withMembers(request.text, request.spans, {
    ...Object.fromEntries(GATEWAY_FIELDS.map((field) => [field, undefined])),
    ...model,
    ...version,
    stream: undefined,
  });
  const abort = createAbort();
  const onClientGone = (): void => abort.abort();
  input.signal.addEventListener("abort", onClientGone);
  const attemptRequest = {
    accountId,
    wire: "count_tokens",
    stream: false,
    isTranslated: false,
    headers: input.headers,
    abort,
    body,
  } as const;
  const result = await attemptCandidate(candidate, attemptRequest, [], deps);
  input.signal.removeEventListener("abort", onClientGone);
  if (!result.ok) throw result.fault;
  if (result.reply.kind !== "whole") throw new Error("a count is not streamed");
  return new Response(result.reply.text, {
    headers: { ...result.reply.headers, "content-type": "application/json" },
  });
}

// No tokenizer makes more tokens of a text than it has bytes: a caller that plans with this never falls short.
function upperBoundReply(request: ParsedRequest, { model, credential }: Candidate): Response {
  const input_tokens = inputBound(request.text, request.json, {
    imageTokensMax: credential.provider.imageTokensMax,
    contextTokens: limitsOf(model).input,
  });
  return Response.json({ input_tokens }, { headers: { "x-postern-count": "upper-bound" } });
}
