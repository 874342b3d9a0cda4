// Settings of a web search that several wires have in the same form.
import {
  type JsonObject,
  mustBeName,
  optionalArray,
  optionalObject,
  optionalOneOf,
  optionalString,
} from "../../base/json.ts";
import { isNativeHint } from "../canonical/hints.ts";
import { addHintLoss, addLoss, type Loss, takeNativeFields } from "../canonical/loss.ts";
import type { WireName } from "../canonical/parts.ts";
import type { CanonicalRequest, Tool } from "../canonical/request.ts";
import type { SearchLocation, Setting, WebSearch } from "../canonical/web-search.ts";

/** Fields that only tune a search, or how its results are listed. */
const SEARCH_HINTS: ReadonlySet<string> = new Set([
  "search_content_types",
  "response_inclusion",
  "strict",
  "cache_control",
  "engine",
  "max_results",
  "max_total_results",
  "max_characters",
]);

export function readDomains(value: unknown, path: string): Setting<readonly string[]> | undefined {
  const domains = optionalArray(value, path)?.map((one, at) => mustBeName(one, `${path}[${at}]`));
  return domains === undefined || domains.length === 0 ? undefined : { value: domains, path };
}

/** `nested` is the field that holds the location's own fields, on Chat Completions. */
export function readLocation(
  value: unknown,
  path: string,
  nested?: string,
): Setting<SearchLocation> | undefined {
  const object = optionalObject(value, path);
  const fields = nested === undefined ? object : optionalObject(object?.[nested], path);
  if (fields === undefined) return undefined;
  const read = (name: string) => optionalString(fields[name], `${path}.${name}`);
  const location = {
    city: read("city"),
    region: read("region"),
    country: read("country"),
    timezone: read("timezone"),
  };
  const isGiven = Object.values(location).some((one) => one !== undefined);
  return isGiven ? { value: location, path } : undefined;
}

export function readContextSize(value: unknown, path: string): WebSearch["contextSize"] {
  const size = optionalOneOf(value, path, ["low", "medium", "high"]);
  return size === undefined ? undefined : { value: size, path };
}

export function writeLocation(search: WebSearch): JsonObject | undefined {
  return search.location && { type: "approximate", ...search.location.value };
}

/** The losses of fields that only the caller's API has. */
export function otherSearchFields(
  fields: JsonObject | undefined,
  path: string,
  wire: WireName,
): readonly Loss[] {
  return Object.entries(fields ?? {}).flatMap(([key, value]): readonly Loss[] => {
    const at = `${path}.${key}`;
    if (key === "external_web_access") return value === false ? [{ path: at, reason: LIVE }] : [];
    const isHint = SEARCH_HINTS.has(key) || isNativeHint(wire, key, value);
    return [{ path: at, reason: NO_EQUIVALENT, hint: isHint || undefined }];
  });
}

const NO_EQUIVALENT = "Web searches of this model's provider have no equivalent.";
/** Codex sends false by default. Dropping it would let a search reach pages that the caller has excluded. */
const LIVE =
  'Web searches of this model\'s provider are always live. With Codex, put web_search = "live" or web_search = "disabled" at the top of its config.toml.';

export function addSearchLoss(
  losses: Loss[],
  setting: Setting<unknown> | undefined,
  reason: string,
): void {
  if (setting !== undefined) addLoss(losses, setting.path, reason);
}

export function addSearchHintLoss(losses: Loss[], setting: Setting<unknown> | undefined): void {
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

/** The request with one more field of this wire. What its fields of another wire lose is added to the losses. */
export function withNativeField(
  request: CanonicalRequest,
  wire: WireName,
  field: JsonObject,
  losses: Loss[],
): CanonicalRequest {
  const own = takeNativeFields(request.native, wire, "", losses);
  return { ...request, native: { wire, fields: { ...own, ...field } } };
}
