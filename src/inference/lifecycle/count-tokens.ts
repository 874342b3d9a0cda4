// POST /v1/messages/count_tokens: the provider's own count where it has one, otherwise an upper bound. Counting is free,
// so nothing is held.

import { WIRE_TRAITS } from "@postern/wires";
import { limitsOf } from "../../models/catalog.ts";
import { inputBound } from "../metering/input-bound.ts";
import { withMembers } from "../request/json-edit.ts";
import { type ParsedRequest, parseRequest } from "../request/parse-request.ts";
import type { Candidate } from "../routing/candidates.ts";
import { findCandidates, type RoutingDeps } from "../routing/routing.ts";
import { rejectStoredReferences } from "../shared-account/reject-references.ts";
import { destinationOf } from "../shared-account/source-url.ts";
import { type AttemptDeps, attemptCandidate } from "../upstream/attempt.ts";
import type { CallInput } from "./call.ts";
import { allowedCandidates } from "./enforce-key-policy.ts";
import { type FreezeDeps, rejectIfFrozen } from "./hold/hold.ts";
import { sharedCredentialsFault } from "./shared-credentials.ts";

export interface CountTokensDeps extends FreezeDeps {
  readonly route: RoutingDeps;
  readonly send: AttemptDeps;
}

export async function countTokens(deps: CountTokensDeps, input: CallInput): Promise<Response> {
  const { accountId } = input.caller;
  const request = parseRequest("messages", input.text, "count");
  await rejectIfFrozen(deps, accountId);
  const found = await findCandidates(request, "count_tokens", input.caller, deps.route);
  // A count shows the prompt to the provider, as a call does.
  const [candidate] = allowedCandidates(found, input.caller);
  const sharedFault = sharedCredentialsFault(request);
  if (sharedFault !== undefined && !candidate.credential.byok) throw sharedFault;
  if (WIRE_TRAITS[candidate.wires[0]].operation === undefined)
    return upperBoundResponse(request, candidate);
  const destination = destinationOf(candidate.credential, "count_tokens");
  rejectStoredReferences(request.json, destination, "request");
  const attempt = {
    accountId,
    // Counting is free, so nothing is held that would tell.
    isPaying: false,
    wire: "count_tokens",
    body: countBody(request, candidate),
    stream: false,
    isTranslated: false,
    forwardedHeaders: input.forwardedHeaders,
    callerSignal: input.signal,
    isCanceled: () => input.signal.aborted,
  } as const;
  const result = await attemptCandidate(candidate, attempt, [], deps.send);
  if (!result.ok) throw result.fault;
  if (result.reply.kind !== "whole") throw new Error("a token count was streamed");
  const { text, headers } = result.reply;
  return new Response(text, { headers: { ...headers, "content-type": "application/json" } });
}

function countBody(request: ParsedRequest, { upstreamName, credential }: Candidate): string {
  const { messagesVersion } = credential.provider;
  return withMembers(request.text, request.spans, {
    ...Object.fromEntries(request.gatewayFields.map((field) => [field, undefined])),
    ...(upstreamName === request.model ? {} : { model: JSON.stringify(upstreamName) }),
    ...(messagesVersion === undefined
      ? {}
      : { anthropic_version: JSON.stringify(messagesVersion) }),
    stream: undefined,
  });
}

// A text never has more tokens than bytes, so a client that relies on this count never exceeds a limit.
function upperBoundResponse(request: ParsedRequest, { model, credential }: Candidate): Response {
  const input_tokens = inputBound(request.text, request.json, {
    imageTokensMax: credential.provider.imageTokensMax,
    contextTokens: limitsOf(model).input,
  });
  return Response.json({ input_tokens }, { headers: { "x-postern-count": "upper-bound" } });
}
