// Edits the caller's JSON text for passthrough, leaving everything else byte for byte: the upstream model name, the usage
// option, an end-user pseudonym, `store`, an output limit that the balance lowered, and the gateway's own fields.

import { API_TRAITS, type UpstreamWireName, WIRE_TRAITS } from "@postern/wires";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { Provider } from "../providers/providers.ts";
import { quoted, withMembers } from "../request/json-edit.ts";
import type { Api, ParsedRequest } from "../request/parse-request.ts";
import { LIMITED_BY_USES } from "../request/tool-bounds.ts";
import type { Candidate } from "../routing/candidates.ts";
import { setStore } from "./provider-store.ts";

export interface RequestAdjustments {
  /** An end-user ID for the account that reveals nothing about it. */
  readonly pseudonym: () => string;
  /** Anthropic asks gateways to insert nothing into the body, so the operator decides. */
  readonly sendsAnthropicUserId: boolean;
  /** The output limit that the balance affords; undefined if it did not have to be lowered. */
  readonly outputMax: number | undefined;
  /** The limit of tool calls that the hold covers; undefined if the caller set one, or if it bounds nothing. */
  readonly toolCallsMax?: number | undefined;
  /** Replaces the messages, as JSON text. */
  readonly messages?: string | undefined;
  /** Replaces the input of a response, as JSON text. */
  readonly input?: string | undefined;
  /** The same for Gemini's API. */
  readonly contents?: string | undefined;
  /** Fields with labels that the provider must not get. */
  readonly omitted?: readonly string[] | undefined;
  /** Further members to set, as JSON text; undefined removes a member. */
  readonly members?: Readonly<Record<string, string | undefined>> | undefined;
}

const REPLACED_FIELDS = ["messages", "input", "contents"] as const;

export function rewriteRequest(
  request: ParsedRequest,
  { upstreamName, credential }: Candidate,
  adjustments: RequestAdjustments,
): string {
  const { provider, byok } = credential;
  const traits = API_TRAITS[request.api];
  const changes: Record<string, string | undefined> = { ...adjustments.members };
  setModel(changes, request, upstreamName, provider.messagesVersion);
  if (traits.hasUsageOption && request.stream && provider.needsUsageOption && !request.wantsUsage) {
    const options = request.json["stream_options"];
    changes["stream_options"] = JSON.stringify({
      ...(isObject(options) ? options : {}),
      include_usage: true,
    });
  }
  if (!provider.acceptsMaxCompletionTokens) useMaxTokensField(changes, request);
  for (const field of adjustments.omitted ?? []) changes[field] = undefined;
  for (const field of REPLACED_FIELDS)
    if (adjustments[field] !== undefined) changes[field] = adjustments[field];
  if (adjustments.outputMax !== undefined)
    setLimit(changes, request, limitFieldOf(request.api, provider), adjustments.outputMax);
  setToolLimit(changes, request, adjustments.toolCallsMax);
  setStore(changes, request, credential);
  if (!byok && provider.endUserField !== null)
    setPseudonym(changes, request, provider.endUserField, adjustments);
  return withMembers(request.text, request.spans, changes);
}

// Sets the provider's name for the model and removes the gateway's own fields.
function setModel(
  changes: Record<string, string | undefined>,
  { api, json, gatewayFields }: ParsedRequest,
  upstreamName: string,
  messagesVersion: string | undefined,
): void {
  for (const field of gatewayFields) changes[field] = undefined;
  if (API_TRAITS[api].hasCallInPath === true) {
    changes["model"] = undefined;
    changes["stream"] = undefined;
  } else if (WIRE_TRAITS[api].hasModelInPath && messagesVersion !== undefined) {
    changes["model"] = undefined;
    changes["anthropic_version"] = JSON.stringify(messagesVersion);
  } else if (json["model"] !== upstreamName) changes["model"] = quoted(upstreamName);
}

/** A dot leads into an object, of which the other members stay. */
function setLimit(
  changes: Record<string, string | undefined>,
  { json }: ParsedRequest,
  field: string,
  limit: number,
): void {
  const [parent = field, member] = field.split(".");
  const object = json[parent];
  changes[parent] =
    member === undefined
      ? String(limit)
      : JSON.stringify({ ...(isObject(object) ? object : {}), [member]: limit });
}

function limitFieldOf(api: Api, { outputLimitField }: Provider): string {
  const { outputLimitFields } = API_TRAITS[api];
  const [only] = outputLimitFields;
  return outputLimitFields.length === 1 && only !== undefined ? only : outputLimitField;
}

// The hold covers this output limit, so it must be in a field that the provider enforces.
function useMaxTokensField(
  changes: Record<string, string | undefined>,
  { api, json }: ParsedRequest,
): void {
  const limit = json["max_completion_tokens"];
  const { outputLimitFields } = API_TRAITS[api];
  if (limit === undefined || !outputLimitFields.includes("max_completion_tokens")) return;
  changes["max_completion_tokens"] = undefined;
  if (typeof limit === "number") changes["max_tokens"] = String(limit);
}

function setToolLimit(
  changes: Record<string, string | undefined>,
  { api, json }: ParsedRequest,
  toolCallsMax: number | undefined,
): void {
  if (toolCallsMax === undefined) return;
  const changed = changes["tools"];
  const tools: unknown = changed === undefined ? json["tools"] : JSON.parse(changed);
  for (const [field, value] of Object.entries(limitedTools(api, { tools }, toolCallsMax)))
    changes[field] = JSON.stringify(value);
}

/**
 * The fields that limit calls of the provider's own tools, where the caller set none: the hold covers no more. None on a wire
 * without such fields.
 */
export function limitedTools(
  wire: UpstreamWireName,
  { tools }: JsonObject,
  limit: number,
): JsonObject {
  const field = WIRE_TRAITS[wire].toolLimitField;
  if (field === "max_tool_calls") return { [field]: limit };
  if (field === undefined || !Array.isArray(tools)) return {};
  return {
    tools: tools.map((tool: unknown) =>
      isObject(tool) && tool["max_uses"] === undefined && LIMITED_BY_USES.test(String(tool["type"]))
        ? { ...tool, max_uses: limit }
        : tool,
    ),
  };
}

function setPseudonym(
  changes: Record<string, string | undefined>,
  { api, json }: ParsedRequest,
  field: string,
  { pseudonym, sendsAnthropicUserId }: RequestAdjustments,
): void {
  const { generates, lacksEndUser } = API_TRAITS[api];
  if (!generates || lacksEndUser === true) return;
  if (field === "metadata.user_id") {
    if (!sendsAnthropicUserId) return;
    const metadata = isObject(json["metadata"]) ? json["metadata"] : {};
    if (metadata["user_id"] !== undefined) return;
    changes["metadata"] = JSON.stringify({ ...metadata, user_id: pseudonym() });
  } else if (json["user"] === undefined && json["safety_identifier"] === undefined)
    changes[field] = quoted(pseudonym());
}
