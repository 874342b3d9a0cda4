// Settings of a web search that several wires have in the same form.

import type { Loss } from "./canonical/canonical-losses.ts";
import type { WireName } from "./canonical/canonical-parts.ts";
import type { SearchLocation, WebSearch } from "./canonical/tools/canonical-web-search.ts";
import type { Setting } from "./canonical/tools/server-tool.ts";
import {
  type JsonObject,
  mustBeName,
  optionalArray,
  optionalObject,
  optionalOneOf,
  optionalString,
} from "./json-fields.ts";
import { otherToolFields } from "./server-tool-fields.ts";

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
  const { external_web_access: isLive, ...others } = fields ?? {};
  const losses = otherToolFields(others, path, wire);
  return isLive === false
    ? [...losses, { path: `${path}.external_web_access`, reason: LIVE }]
    : losses;
}

/** Codex sends false by default. Dropping it would let a search reach pages that the caller has excluded. */
const LIVE =
  'Web searches of this model\'s provider are always live. With Codex, put web_search = "live" or web_search = "disabled" at the top of its config.toml.';
