// POST /v1/messages/count_tokens and POST /v1/responses/input_tokens: the provider's own count where it has one, otherwise
// that of a tokenizer. Counting is free, so nothing is held.

import { API_TRAITS, readCount, WIRE_TRAITS, writeCountRequest } from "@postern/wires";
import { publicError } from "../../base/error-body.ts";
import { Fault, invalid } from "../../base/fault.ts";
import type { OpenGuards } from "../../base/guard.ts";
import { isSet, parseObject } from "../../base/json.ts";
import type { Model } from "../../models/catalog.ts";
import { countRequestTokens, type InputCount } from "../metering/input-count.ts";
import { countInput, isInputCountable, isOpenAiWire } from "../metering/tokens/count-input.ts";
import { encodingOf } from "../metering/tokens/tokenizer.ts";
import { commonForm } from "../request/common-form.ts";
import { withMembers } from "../request/json-edit.ts";
import { type ParsedRequest, parseRequest } from "../request/parse-request.ts";
import type { Candidate } from "../routing/candidates.ts";
import { findCandidates, type RoutingDeps } from "../routing/routing.ts";
import { rejectStoredReferences } from "../shared-account/reject-references.ts";
import { destinationOf } from "../shared-account/source-url.ts";
import { planFor } from "../translate/plan.ts";
import type { TransportPlan } from "../translate/transport-plan.ts";
import { attemptCandidate, type AttemptDeps } from "../upstream/attempt.ts";
import type { CallInput } from "./call.ts";
import { checkInput } from "./check-guardrails.ts";
import { type DataPolicyDeps, keepDataPolicy } from "./enforce-data-policy.ts";
import { allowedCandidates } from "./enforce-key-policy.ts";
import { expandPreset, type FindPreset } from "./expand-preset.ts";
import { type FreezeDeps, rejectIfFrozen } from "./hold/hold.ts";
import { sharedCredentialsFault } from "./shared-credentials.ts";

export interface CountTokensDeps extends FreezeDeps {
  readonly findPreset: FindPreset;
  readonly openGuards: OpenGuards;
  readonly route: RoutingDeps & DataPolicyDeps;
  readonly send: AttemptDeps;
}

/** Says where a count is from: `provider`, `tokenizer` or `estimate`. */
export const COUNT_HEADER = "x-postern-count";

export async function countResponseTokens(
  deps: CountTokensDeps,
  sent: CallInput,
): Promise<Response> {
  const input = await preparedInput(deps, sent);
  const request = parseRequest(input.api, input.text, "count");
  if (isSet(request.json["previous_response_id"]))
    throw invalid(
      "previous_response_id",
      "`previous_response_id` is not supported here. Send the whole input.",
    );
  await rejectIfFrozen(deps, input.caller.accountId);
  const { tokens, method } = await countAs(deps, input, request);
  const body = { object: "response.input_tokens", input_tokens: tokens };
  return Response.json(body, { headers: { [COUNT_HEADER]: method } });
}

/** For an API whose count has a form of its own. */
export async function countInputTokens(deps: CountTokensDeps, sent: CallInput): Promise<Count> {
  const input = await preparedInput(deps, sent);
  const request = parseRequest(input.api, input.text, "count");
  await rejectIfFrozen(deps, input.caller.accountId);
  return countAs(deps, input, request);
}

export async function countTokens(deps: CountTokensDeps, sent: CallInput): Promise<Response> {
  const input = await preparedInput(deps, sent);
  const { accountId } = input.caller;
  const request = parseRequest("messages", input.text, "count");
  await rejectIfFrozen(deps, accountId);
  const found = await findCandidates(request, "count_tokens", input.caller, deps.route);
  const permitted = keepDataPolicy(found, request, input.caller, deps.route);
  const [candidate] = allowedCandidates(permitted, input);
  const sharedFault = sharedCredentialsFault(request);
  if (sharedFault !== undefined && !candidate.credential.byok) throw sharedFault;
  if (WIRE_TRAITS[candidate.wires[0]].operation === undefined) {
    const { tokens, method } = await countAs(deps, input, request);
    return Response.json({ input_tokens: tokens }, { headers: { [COUNT_HEADER]: method } });
  }
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
  return new Response(text, {
    headers: { ...headers, "content-type": "application/json", [COUNT_HEADER]: "provider" },
  });
}

/** A count shows the prompt to the provider, as a call does. */
async function preparedInput(deps: CountTokensDeps, sent: CallInput): Promise<CallInput> {
  return await checkInput(deps.openGuards, await expandPreset(deps.findPreset, sent));
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

type Count = Pick<InputCount, "tokens"> & { readonly method: InputCount["method"] | "provider" };

/** By the provider of a call with this request, or else here. */
async function countAs(
  deps: CountTokensDeps,
  input: CallInput,
  request: ParsedRequest,
): Promise<Count> {
  const found = await findCandidates(request, request.api, input.caller, deps.route);
  const permitted = keepDataPolicy(found, request, input.caller, deps.route);
  const [candidate] = allowedCandidates(permitted, input);
  const isRefused = !candidate.credential.byok && sharedCredentialsFault(request) !== undefined;
  const tokens = isRefused
    ? undefined
    : await countByProvider(deps.send, input, request, candidate);
  return tokens === undefined
    ? countLocally(request, candidate.model)
    : { tokens, method: "provider" };
}

/** OpenAI's own rules of counting, where all of the input is text and functions in the form of its APIs. */
async function countLocally(request: ParsedRequest, { id }: Model): Promise<InputCount> {
  const { api } = request;
  const json = commonForm(request);
  const encoding = encodingOf(id);
  return encoding !== undefined && isOpenAiWire(api) && isInputCountable(json)
    ? { tokens: await countInput(json, encoding, true), method: "tokenizer" }
    : countRequestTokens(json, id);
}

// The provider's own count of a request that its API counts in another form than the caller's: the request is written as for a
// call, and then as a count. Without an answer the gateway counts itself.

/** Undefined if the provider does not count, or not this request. */
async function countByProvider(
  send: AttemptDeps,
  input: CallInput,
  request: ParsedRequest,
  candidate: Candidate,
): Promise<number | undefined> {
  const { provider } = candidate.credential;
  if (provider.countsInput !== true) return undefined;
  const plan = planOf(input, request, candidate);
  const body = plan && parseObject(plan.body);
  if (plan === undefined || body === undefined) return undefined;
  const isVertex = provider.cloudAuth === "google";
  const count = writeCountRequest(plan.wire, { body, path: plan.path ?? "", isVertex });
  if (count === undefined || provider.paths[plan.wire] === undefined) return undefined;
  const attempt = {
    accountId: input.caller.accountId,
    // Counting is free, so nothing is held that would tell.
    isPaying: false,
    wire: count.wire,
    path: count.path,
    body: JSON.stringify(count.body),
    stream: false,
    isTranslated: plan.isTranslated,
    isCount: true,
    forwardedHeaders: input.forwardedHeaders,
    callerSignal: input.signal,
    isCanceled: () => input.signal.aborted,
    maxAttempts: 1,
  } as const;
  const result = await attemptCandidate(candidate, attempt, [], send);
  if (result.ok) return result.reply.kind === "whole" ? readCount(result.reply.json) : undefined;
  if (result.isClientGone) throw result.fault;
  return undefined;
}

/** A count has no output, and its losses change nothing of the input. */
function planOf(
  { requestId, now }: CallInput,
  request: ParsedRequest,
  candidate: Candidate,
): TransportPlan | undefined {
  const { requiresOutputLimit, outputLimitFields } = API_TRAITS[request.api];
  const limits = requiresOutputLimit
    ? outputLimitFields.map((name) => [name, candidate.model.maxOutputTokens ?? OUTPUT_TOKENS])
    : [];
  const json = { ...Object.fromEntries(limits), ...request.json };
  const adjustments = {
    pseudonym: () => "",
    sendsAnthropicUserId: false,
    outputMax: undefined,
  };
  try {
    return planFor({
      request: { ...request, json, stream: false },
      candidate,
      requestId,
      now,
      modelIdOf: (name) => name,
      toPublicError: publicError,
      isStrict: false,
      isLossy: true,
      adjustments,
    });
  } catch (error) {
    if (error instanceof Fault) return undefined;
    throw error;
  }
}

/** For an API that requires a limit; it is not counted. */
const OUTPUT_TOKENS = 32_000;
