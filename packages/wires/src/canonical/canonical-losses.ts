// Losses: what of a request the target's wire cannot express, each with the caller's field and the reason.

import type { JsonObject } from "../json-fields.ts";
import type { NativeFields, NativePart, Part, WireName } from "./canonical-parts.ts";
import type { CanonicalRequest, NativeTool, RequestField, Turn } from "./canonical-request.ts";
import {
  isHintField,
  isNativeHint,
  isNativeLabel,
  REASONING_DIALECT_FIELDS,
} from "./native-hints.ts";

/**
 * A loss of a hint is dropped and listed. Any other gets the caller a 400 that names it, unless the caller allows losses with
 * `postern.lossy`.
 */
export interface Loss {
  readonly path: string;
  readonly reason: string;
  /** A field that only tunes the reply or labels the call (`native-hints.ts`); another wire of the provider may take it. */
  readonly hint?: true | undefined;
  /** Dropped by a documented rule: listed to the caller, never an error. */
  readonly tolerated?: true | undefined;
  /** An error even if the caller allows losses, because leaving the field out does not help. */
  readonly fatal?: true | undefined;
}

export function addLoss(losses: Loss[], path: string, reason: string): undefined {
  losses.push({ path, reason });
  return undefined;
}

export function addToleratedLoss(losses: Loss[], path: string, reason: string): undefined {
  losses.push({ path, reason, tolerated: true });
  return undefined;
}

export function addHintLoss(losses: Loss[], path: string, reason: string): undefined {
  losses.push({ path, reason, hint: true });
  return undefined;
}

/** A loss of a request field, under the caller's name for it. */
export function addFieldLoss(
  losses: Loss[],
  request: CanonicalRequest,
  field: RequestField,
  reason: string,
): undefined {
  const path = fieldPath(request, field);
  losses.push({ path, reason, hint: isHintField(field) || undefined });
  return undefined;
}

/** For a turn on an API whose messages have no names. */
export function addTurnNameLoss(losses: Loss[], { name, path = "messages" }: Turn): void {
  if (name !== undefined)
    addHintLoss(losses, `${path}.name`, "This provider does not support message names.");
}

export function fieldPath(request: CanonicalRequest, field: RequestField): string {
  return request.names?.[field] ?? field;
}

/** For a provider that cannot forbid parallel calls. */
export function addParallelCallsLoss(losses: Loss[], request: CanonicalRequest): void {
  if (request.parallelToolCalls === false)
    addFieldLoss(
      losses,
      request,
      "parallelToolCalls",
      "This provider cannot forbid parallel calls.",
    );
}

export function addFatalLoss(losses: Loss[], path: string, reason: string): undefined {
  losses.push({ path, reason, fatal: true });
  return undefined;
}

/** For the `isError` of a tool result on an API without such a field. */
export function addToolErrorLoss(losses: Loss[], path: string): void {
  const reason = "This API cannot mark a tool result as an error; its content is sent.";
  addToleratedLoss(losses, `${path}.is_error`, reason);
}

/** For content of another wire in a request. */
export function addNativePartLoss(losses: Loss[], path: string, { wire }: NativePart): undefined {
  return addLoss(
    losses,
    path,
    `This content is specific to the ${wire} API and has no equivalent at this model's provider.`,
  );
}

const PART_TYPE = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

/** For content of a reply that the caller's API cannot express; the path ends in the content's type. */
export function addPartLoss(losses: Loss[], path: string, part: Part): void {
  const [only] = part.type === "native" ? Object.keys(part.value) : [];
  const type = part.type === "native" ? (part.value["type"] ?? only) : part.type;
  const kind = typeof type === "string" && PART_TYPE.test(type) ? type : part.type;
  addLoss(losses, `${path}.${kind}`, "Replies of this API cannot contain this content.");
}

/** Codex sends these tools by default; only its configuration turns them off. */
export function codexToolHint(toolType: unknown): string {
  if (toolType === "web_search")
    return ' With Codex, put this line at the top of its config.toml: web_search = "disabled".';
  return toolType === "image_generation"
    ? " With Codex, put this line below [features] in its config.toml: image_generation = false. POST /v1/images/generations creates images with other models."
    : "";
}

/** Tools that the client runs, although their definition is the provider's. */
const CLIENT_TOOL = /^(bash|text_editor|memory|computer|local_shell|apply_patch)/;

export function nativeToolLossReason({ name, wire, value }: NativeTool): string {
  if (wire === "responses" && value["type"] === "namespace")
    return `The namespace ${name} contains tools or fields that have no equivalent in other APIs.`;
  if (CLIENT_TOOL.test(String(value["type"])))
    return `The tool ${name} is defined only by the ${wire} API. Declare it as a function, with a schema.`;
  const hint = wire === "responses" ? codexToolHint(value["type"]) : "";
  return `The server tool ${name} runs only at a provider of the ${wire} API.${hint}`;
}

/** The fields to spread into this wire's own object; each field of another wire becomes a loss. */
export function takeNativeFields(
  native: NativeFields | undefined,
  wire: WireName,
  path: string | undefined,
  losses: Loss[],
): JsonObject | undefined {
  if (native === undefined || native.wire === wire) return native?.fields;
  for (const [key, value] of Object.entries(native.fields)) {
    if (native.wire === "chat" && REASONING_DIALECT_FIELDS.has(key)) continue;
    losses.push({
      path: path === undefined || path === "" ? key : `${path}.${key}`,
      reason: `This field is specific to the ${native.wire} API and has no equivalent at this model's provider.`,
      hint: isNativeHint(native.wire, key, value) || isNativeLabel(path ?? "", key) || undefined,
    });
  }
  return undefined;
}
