// Guardrails on a whole request and a whole reply.

import { API_TRAITS } from "@postern/wires";
import type { Guard, GuardPhase, GuardrailCheck, OpenGuards } from "../../base/guard.ts";
import { newId } from "../../base/id.ts";
import { isObject, type JsonObject, parseObject } from "../../base/json.ts";
import { parseJsonBody } from "../../http/request/body.ts";
import { dropProbabilities, replaceText, textFieldsOf } from "../guardrails/guarded-texts.ts";
import { readForwardedHeaders } from "../request/forwarded-headers.ts";
import { withChanges } from "../request/json-edit.ts";
import type { UpstreamReply } from "../upstream/read-upstream-reply.ts";
import type { CallInput } from "./call.ts";

/**
 * The input with the texts that guardrails allow or rewrite. Throws the fault of a guardrail that denies it. Not async: calls of
 * most workspaces have no guardrails and need no promise.
 */
export function checkInput(
  openGuards: OpenGuards,
  input: CallInput,
  runCall?: RunCall,
): CallInput | Promise<CallInput> {
  return input.caller.guardrailsAt === undefined ? input : checkGuarded(openGuards, input, runCall);
}

/** Runs another call that the same key pays, such as a check of topics. */
type RunCall = (input: CallInput) => Promise<Response>;

async function checkGuarded(
  openGuards: OpenGuards,
  input: CallInput,
  runCall: RunCall | undefined,
): Promise<CallInput> {
  const { caller, requestId, api } = input;
  // Each guardrail adds its checks, which the usage record lists.
  const checks: GuardrailCheck[] = [];
  const { accountId, keyId } = caller;
  const decide =
    runCall &&
    ((body: JsonObject, phase: GuardPhase): Promise<JsonObject> =>
      decideFor(input, { body, phase }, runCall));
  const guards = await openGuards({ accountId, keyId, requestId, api, decide }, checks);
  const checkPast = guards.input && checkerOf(guards.input);
  const guarded = { ...input, guardrails: { checks, output: guards.output, checkPast } };
  const json = parseJsonBody(input.text);
  // The request of a background call was checked when the call was created.
  if (guards.input === undefined || input.statefulCall !== undefined || !isObject(json))
    return guarded;
  // Of two members with one name only one was checked: parsing rejects what still has both.
  if (!(await checkJson(guards.input, json, "input"))) return guarded;
  const { text: unchecked, received = unchecked } = input;
  const text = withChanges(unchecked, parseJsonBody(unchecked), json);
  return { ...guarded, text, received, unchecked };
}

/** What is sent again is checked again: a guardrail may be newer than the conversation. */
function checkerOf(guard: Guard): NonNullable<CallInput["guardrails"]>["checkPast"] {
  return async (items) => {
    const conversation = structuredClone(items);
    await checkJson(guard, { conversation }, "input");
    return conversation;
  };
}

/**
 * Makes a decisions call for a guardrail. The workspace demands the call, so the key's models, endpoints and rates do not restrict
 * it; its limits, session and data policy do.
 */
async function decideFor(
  { caller, now, labels, session, signal }: CallInput,
  { body, phase }: { readonly body: JsonObject; readonly phase: GuardPhase },
  runCall: RunCall,
): Promise<JsonObject> {
  const { guardrailsAt: _, policy = {}, ...payer } = caller;
  const { dataPolicy, session: boundSession, sessionLimitUsd } = policy;
  const kept = {
    ...(dataPolicy !== undefined && { dataPolicy }),
    ...(boundSession !== undefined && { session: boundSession }),
    ...(sessionLimitUsd !== undefined && { sessionLimitUsd }),
  };
  const response = await runCall({
    api: "decisions",
    text: JSON.stringify(body),
    caller: { ...payer, policy: kept },
    requestId: newId("req", now),
    now,
    headers: new Headers(),
    forwardedHeaders: readForwardedHeaders(new Headers(), API_TRAITS.decisions.forwardsHeaders),
    // A reply can be stored after its caller has left, so its check goes on.
    signal: phase === "input" ? signal : new AbortController().signal,
    labels,
    session,
    idempotent: undefined,
    isCheck: true,
  });
  return parseObject(await response.text()) ?? {};
}

export type WholeReply = UpstreamReply & { readonly kind: "whole" };

export async function checkWholeReply(guard: Guard, reply: WholeReply): Promise<WholeReply> {
  // A copy, because a denied reply is metered as the provider sent it.
  const json = structuredClone(reply.json);
  const isChanged = await checkJson(guard, json, "output");
  return isChanged ? { ...reply, json, text: withChanges(reply.text, reply.json, json) } : reply;
}

async function checkJson(guard: Guard, json: JsonObject, phase: GuardPhase): Promise<boolean> {
  const fields = textFieldsOf(json, phase);
  const texts = await guard.checkAll(fields.map(({ path, text }) => ({ path, text })));
  let isChanged = false;
  for (const [index, field] of fields.entries()) {
    const text = texts[index];
    if (text === undefined || text === field.text) continue;
    replaceText(field, text);
    isChanged = true;
  }
  if (isChanged) dropProbabilities(json);
  return isChanged;
}
