// The caller's own bytes with only what must change: the model's name, the request for usage, a pseudonym for the end
// user, nothing stored in the gateway's account, the output limit where the balance lowered it, and without the members
// that are the gateway's own.

import type { ParsedRequest } from "../request/parse-request.ts";
import type { Candidate } from "../routing/candidates.ts";
import { isObject } from "../../base/json.ts";
import { withMembers } from "../request/json-edit.ts";
import { hasGatewayFields, GATEWAY_FIELDS } from "../routing/routing-preferences.ts";

export interface RequestAdjustments {
  /** Stands for the account at the provider, and says nothing about it. */
  readonly pseudonym: () => string;
  /** The output limit that the balance affords, where it had to be lowered. */
  readonly outputMax: number | undefined;
  /** A chat's messages, where they cannot be sent as they came. */
  readonly messages?: string | undefined;
}

export function rewriteRequest(
  ask: ParsedRequest,
  { upstreamName, credential }: Candidate,
  adjustments: RequestAdjustments,
): string {
  const { provider, byok } = credential;
  const changes: Record<string, string | undefined> = {};
  setModel(changes, ask, upstreamName, provider.messagesVersion);
  if (ask.api === "chat" && ask.stream && provider.needsUsageOption && !ask.wantsUsage) {
    const options = ask.json["stream_options"];
    changes["stream_options"] = JSON.stringify({
      ...(isObject(options) ? options : {}),
      include_usage: true,
    });
  }
  if (ask.api === "chat" && !provider.acceptsMaxCompletionTokens)
    useMaxTokensField(changes, ask.json);
  if (adjustments.messages !== undefined) changes["messages"] = adjustments.messages;
  if (adjustments.outputMax !== undefined)
    changes[maxTokensFieldOf(ask, provider.outputLimitField)] = String(adjustments.outputMax);
  if (!byok) {
    if (
      provider.supportsStore &&
      (ask.api === "responses" || ask.json["store"] === true) &&
      ask.json["store"] !== false
    )
      changes["store"] = "false";
    if (provider.endUserField !== null)
      Object.assign(changes, pseudonymField(ask, provider.endUserField, adjustments.pseudonym));
  }
  return withMembers(ask.text, ask.spans, changes);
}

// Says the model as this provider does, and takes out what the gateway alone was told about it.
function setModel(
  changes: Record<string, string | undefined>,
  { api, json }: ParsedRequest,
  upstreamName: string,
  messagesVersion: string | undefined,
): void {
  if (api !== "embeddings" && hasGatewayFields(json))
    for (const own of GATEWAY_FIELDS) changes[own] = undefined;
  if (api === "messages" && messagesVersion !== undefined) {
    changes["model"] = undefined;
    changes["anthropic_version"] = JSON.stringify(messagesVersion);
  } else if (json["model"] !== upstreamName) changes["model"] = JSON.stringify(upstreamName);
}

// The limit that the hold was taken for must be one that the provider heeds.
function useMaxTokensField(
  changes: Record<string, string | undefined>,
  json: ParsedRequest["json"],
): void {
  const limit = json["max_completion_tokens"];
  if (limit === undefined) return;
  changes["max_completion_tokens"] = undefined;
  if (typeof limit === "number") changes["max_tokens"] = String(limit);
}

function maxTokensFieldOf(ask: ParsedRequest, chatField: string): string {
  if (ask.api === "responses") return "max_output_tokens";
  return ask.api === "chat" ? chatField : "max_tokens";
}

function pseudonymField(
  ask: ParsedRequest,
  field: string,
  pseudonym: () => string,
): Record<string, string> {
  if (ask.api === "embeddings") return {};
  if (field === "metadata.user_id") {
    const metadata = ask.json["metadata"];
    if (isObject(metadata) && metadata["user_id"] !== undefined) return {};
    return {
      metadata: JSON.stringify({ ...(isObject(metadata) ? metadata : {}), user_id: pseudonym() }),
    };
  }
  const isSet = ask.json["user"] !== undefined || ask.json["safety_identifier"] !== undefined;
  return isSet ? {} : { [field]: JSON.stringify(pseudonym()) };
}
