// Guardrails on a whole request and a whole reply.

import type { Guard, GuardPhase, GuardrailCheck, OpenGuards } from "../../base/guard.ts";
import { isObject, type JsonObject, parseJson } from "../../base/json.ts";
import { dropProbabilities, replaceText, textFieldsOf } from "../guardrails/guarded-texts.ts";
import type { UpstreamReply } from "../upstream/read-upstream-reply.ts";
import type { CallInput } from "./call.ts";

/** The input as it may be sent to a provider. Throws the fault of a guardrail that denies it. Not async: few workspaces have one. */
export function checkInput(
  openGuards: OpenGuards,
  input: CallInput,
): CallInput | Promise<CallInput> {
  return input.caller.guardrailsAt === undefined ? input : checkGuarded(openGuards, input);
}

async function checkGuarded(openGuards: OpenGuards, input: CallInput): Promise<CallInput> {
  const { caller, requestId, api } = input;
  const checks: GuardrailCheck[] = [];
  const { accountId, keyId } = caller;
  const guards = await openGuards({ accountId, keyId, requestId, api }, checks);
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
