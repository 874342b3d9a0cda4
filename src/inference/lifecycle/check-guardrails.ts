// Guardrails on a whole request and a whole reply.

import { API_TRAITS } from "@postern/wires";
import type { Guard, GuardPhase, GuardrailCheck, OpenGuards } from "../../base/guard.ts";
import { newId } from "../../base/id.ts";
import { isObject, type JsonObject, parseJson, parseObject } from "../../base/json.ts";
import { dropProbabilities, replaceText, textFieldsOf } from "../guardrails/guarded-texts.ts";
import { readForwardedHeaders } from "../request/forwarded-headers.ts";
import type { UpstreamReply } from "../upstream/read-upstream-reply.ts";
import type { CallInput } from "./call.ts";

/** The input as it may be sent to a provider. Throws the fault of a guardrail that denies it. Not async: few workspaces have one. */
export function checkInput(
  openGuards: OpenGuards,
  input: CallInput,
  runCall?: RunCall,
): CallInput | Promise<CallInput> {
  return input.caller.guardrailsAt === undefined ? input : checkGuarded(openGuards, input, runCall);
}

/** Runs another call of the same caller, which it pays. */
type RunCall = (input: CallInput) => Promise<Response>;

async function checkGuarded(
  openGuards: OpenGuards,
  input: CallInput,
  runCall: RunCall | undefined,
): Promise<CallInput> {
  const { caller, requestId, api } = input;
  const checks: GuardrailCheck[] = [];
  const { accountId, keyId } = caller;
  const decide =
    runCall &&
    ((body: JsonObject, phase: GuardPhase): Promise<JsonObject> =>
      decideFor(input, { body, phase }, runCall));
  const guards = await openGuards({ accountId, keyId, requestId, api, decide }, checks);
  const guarded = { ...input, guardrails: { checks, output: guards.output } };
  const json = parseJson(input.text);
  // What runs in the background was checked when it was created.
  if (guards.input === undefined || input.statefulCall !== undefined || !isObject(json))
    return guarded;
  await checkJson(guards.input, json, "input");
  // Written anew even if nothing changed: of two members with one name, a provider may read the one that was not checked.
  const { text, received = text } = input;
  return { ...guarded, text: JSON.stringify(json), received, unchecked: text };
}

/**
 * The workspace has asked for this call, so what the key may call and how fast does not apply to it. Its limits, session and data
 * policy do.
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
    // The reply to a caller who has left may be stored, so it is checked, too.
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
  // The reply that the provider sent is metered if a guardrail denies it.
  const json = structuredClone(reply.json);
  const isChanged = await checkJson(guard, json, "output");
  return isChanged ? { ...reply, json, text: JSON.stringify(json) } : reply;
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
