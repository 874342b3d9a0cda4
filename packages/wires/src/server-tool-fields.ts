// Puts tools that a provider runs into a request, and takes them out. Several wires have their settings in the same form.

import { addHintLoss, addLoss, type Loss, takeNativeFields } from "./canonical/canonical-losses.ts";
import type { WireName } from "./canonical/canonical-parts.ts";
import type { CanonicalRequest, NativeTool, Tool } from "./canonical/canonical-request.ts";
import { isNativeHint } from "./canonical/native-hints.ts";
import type { Setting } from "./canonical/tools/server-tool.ts";
import type { JsonObject } from "./json-fields.ts";

const NO_EQUIVALENT = "The tool of this model's provider has no equivalent.";

/** Fields that only tune a tool, or how its results are listed. */
const HINTS: ReadonlySet<string> = new Set([
  "search_content_types",
  "response_inclusion",
  "strict",
  "cache_control",
  "engine",
  "search_prompt",
  "max_results",
  "max_total_results",
  "max_characters",
  "server_description",
  "use_cache",
  "citations",
]);

export interface TakenTool {
  readonly value: JsonObject;
  readonly path: string;
  /** Whether the request requires the tool. */
  readonly isRequired: boolean;
  /** The request without the tool, and without the choice that requires it. */
  readonly rest: CanonicalRequest;
}

/** Takes the tool of this wire whose type matches out of the request. */
export function takeNativeTool(
  request: CanonicalRequest,
  wire: WireName,
  type: RegExp,
): TakenTool | undefined {
  const tool = request.tools?.find(
    (one): one is NativeTool =>
      one.type === "native" && one.wire === wire && type.test(String(one.value["type"])),
  );
  if (tool === undefined) return undefined;
  const { value, path = "tools" } = tool;
  const isRequired = isChosen(request, tool);
  const rest = withoutTool(request, tool);
  return { value, path, isRequired, rest: isRequired ? { ...rest, toolChoice: undefined } : rest };
}

/** The losses of fields that only the caller's API has. */
export function otherToolFields(
  fields: JsonObject | undefined,
  path: string,
  wire: WireName,
): readonly Loss[] {
  return Object.entries(fields ?? {}).map(([key, value]): Loss => {
    const isHint = HINTS.has(key) || isNativeHint(wire, key, value);
    return { path: `${path}.${key}`, reason: NO_EQUIVALENT, hint: isHint || undefined };
  });
}

export function addSettingLoss(
  losses: Loss[],
  setting: Setting<unknown> | undefined,
  reason: string,
): void {
  if (setting !== undefined) addLoss(losses, setting.path, reason);
}

export function addSettingHintLoss(losses: Loss[], setting: Setting<unknown> | undefined): void {
  if (setting !== undefined) addHintLoss(losses, setting.path, NO_EQUIVALENT);
}

export function withoutTool(request: CanonicalRequest, removed: Tool): CanonicalRequest {
  const tools = request.tools?.filter((tool) => tool !== removed);
  return { ...request, tools: tools?.length === 0 ? undefined : tools };
}

export function withTool(
  request: CanonicalRequest,
  wire: WireName,
  name: string,
  value: JsonObject,
): CanonicalRequest {
  return { ...request, tools: [...(request.tools ?? []), { type: "native", wire, name, value }] };
}

/** Adds a native field of this wire to the request. Native fields of another wire become losses. */
export function withNativeField(
  request: CanonicalRequest,
  wire: WireName,
  field: JsonObject,
  losses: Loss[],
): CanonicalRequest {
  const own = takeNativeFields(request.native, wire, "", losses);
  return { ...request, native: { wire, fields: { ...own, ...field } } };
}

/** The request without fields of this wire. */
export function withoutNativeFields(
  request: CanonicalRequest,
  wire: WireName,
  names: readonly string[],
): CanonicalRequest {
  if (request.native?.wire !== wire) return request;
  const kept = Object.entries(request.native.fields).filter(([name]) => !names.includes(name));
  const native = kept.length === 0 ? undefined : { wire, fields: Object.fromEntries(kept) };
  return { ...request, native };
}

/** The request without `include` values for parts of the tool's calls: the reply has these parts in any case. */
export function withoutIncluded(request: CanonicalRequest, value: string): CanonicalRequest {
  const { native } = request;
  const include: unknown = native?.wire === "responses" ? native.fields["include"] : undefined;
  if (native === undefined || !Array.isArray(include)) return request;
  const kept = include.filter((one) => one !== value);
  const rest = withoutNativeFields(request, "responses", ["include"]);
  if (kept.length === 0) return rest;
  const fields = { ...rest.native?.fields, include: kept };
  return { ...rest, native: { wire: "responses", fields } };
}

/** Whether the request requires this tool. */
export function isChosen(
  { toolChoice: choice }: CanonicalRequest,
  { wire, name, value }: NativeTool,
): boolean {
  if (choice?.type === "tool") return wire === "messages" && choice.name === name;
  return (
    choice?.type === "native" && choice.wire === wire && choice.value["type"] === value["type"]
  );
}
