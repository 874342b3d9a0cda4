// Rejects what must not run on the gateway's own credentials, which all tenants share: references to objects stored in the
// provider account, which could belong to another tenant, and features whose price only the provider knows.

import { API_TRAITS, isForeignContainer } from "@postern/wires";
import type { Fault } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { isCodeTool, toolsOf } from "../request/tool-bounds.ts";
import {
  type SharedAccountUse,
  storedReferenceFault,
  unboundedCostFault,
} from "../shared-account/faults.ts";
import { guardedJson } from "../shared-account/guarded-json.ts";
import {
  ID_HOLDERS,
  REFERENCE_NAMES,
  REFERENCE_TYPES,
  ROOT_REFERENCES,
  SEND_HISTORY,
} from "../shared-account/reference-table.ts";
import { THREADS_UNSUPPORTED } from "../translate/losses.ts";

const SEND_OR_STORE_HINT = `${SEND_HISTORY}, or let this gateway store each of them (no \`store: false\`)`;

const NO_CONTAINER_IDS: ReadonlySet<string> = new Set();

export interface ItemUse {
  /** The containers that are known to be the caller's. */
  readonly ownContainers?: ReadonlySet<string>;
  /** Whether the provider gets the tool calls in `input` unchanged: a translation leaves out runs of code. */
  readonly sendsCalls?: boolean;
}

/** Undefined for a request that may use the gateway's credentials. */
export function sharedCredentialsFault(
  request: ParsedRequest,
  { ownContainers = NO_CONTAINER_IDS, sendsCalls = true }: ItemUse = {},
): Fault | undefined {
  const json = guardedJson(request);
  const stored = API_TRAITS[request.api].storedContent?.(json);
  if (stored !== undefined)
    return storedReferenceFault({
      path: stored,
      alternative: "Send the content in the request",
    });
  const reference =
    topLevelReference(json) ??
    comparisonReference(json) ??
    referenceInTools(json["tools"]) ??
    referenceInList(json["system"], "system") ??
    referenceInList(json["messages"], "messages") ??
    referenceInList(json["input"], "input") ??
    (sendsCalls ? containerReference(json, ownContainers) : undefined);
  if (reference !== undefined) return storedReferenceFault(reference);
  const unbounded = unboundedUse(json);
  return unbounded && unboundedCostFault(unbounded);
}

/** A stored response would let a later call use the container, without its size, at the price of a smaller one. */
export function keptContainerFault({ containers }: ParsedRequest): Fault | undefined {
  const large = containers.find(({ gigabytes = 0 }) => gigabytes > 1);
  return (
    large &&
    unboundedCostFault({ path: large.param, alternative: 'Use "1g", or set `store` to false' })
  );
}

type FieldHints = readonly (readonly [field: string, instead: string])[];

const REFERENCE_FIELDS: FieldHints = [
  ["previous_response_id", SEND_OR_STORE_HINT],
  ["conversation", SEND_HISTORY],
  ["prompt", "Send the prompt's text in the request"],
  ["container", "Let the provider create a new container"],
  ["input_file_id", "Send the file's content in the request"],
  ["cached_content", "Send the content in the request"],
  ["preset", "Send its settings in the request"],
  ["batch_id", "Send the requests one by one"],
  ["user_profile_id", "Remove it"],
];

const DEFERRED_FIELDS = [
  [
    "background",
    "Let this gateway store the response (`store: true`), so that it can run in the background",
  ],
  ["deferred", "Remove it and stream the reply"],
] as const;

function firstPresent(fields: FieldHints, json: JsonObject): SharedAccountUse | undefined {
  for (const [path, alternative] of fields) {
    if (isPresent(json[path])) return { path, alternative };
  }
  return undefined;
}

function topLevelReference(json: JsonObject): SharedAccountUse | undefined {
  const given = firstPresent(REFERENCE_FIELDS, json);
  if (given !== undefined) return given;
  if (isPresent(json["thread"]))
    return { path: "thread", alternative: SEND_HISTORY, fields: THREADS_UNSUPPORTED };
  for (const [path, alternative] of DEFERRED_FIELDS) {
    if (json[path] === true) return { path, alternative };
  }
  const { extra_body: extra, audio } = json;
  const voice = isObject(audio) ? audio["voice"] : undefined;
  if (isObject(voice) && isPresent(voice["id"]))
    return { path: "audio.voice.id", alternative: "Use a built-in voice" };
  const google = isObject(extra) ? extra["google"] : undefined;
  if (isObject(google) && isPresent(google["cached_content"]))
    return {
      path: "extra_body.google.cached_content",
      alternative: "Send the content in the request",
    };
  return undefined;
}

/** Fields that name an earlier reply in the provider account. */
const COMPARISON_FIELDS = [
  ["prompt_cache_options", "comparison_response_id"],
  ["diagnostics", "previous_message_id"],
] as const;

function comparisonReference(json: JsonObject): SharedAccountUse | undefined {
  for (const [parent, field] of COMPARISON_FIELDS) {
    const object = json[parent];
    if (isObject(object) && typeof object[field] === "string")
      return { path: `${parent}.${field}`, alternative: "Remove it" };
  }
  return undefined;
}

const UNBOUNDED_COST_FIELDS: FieldHints = [
  ["fallbacks", "Name the fallback models in `models`"],
  ["plugins", "Use the model's own tools"],
  // OpenAI bounds neither the number of subagents nor the depth of their tree.
  ["multi_agent", "Run each agent in a call of its own"],
  ["best_of", "Use `n`"],
  ["data_sources", "Send the documents in the request"],
];

/** Features with which the provider calls other models or services, at prices that only it knows. */
function unboundedUse(json: JsonObject): SharedAccountUse | undefined {
  return firstPresent(UNBOUNDED_COST_FIELDS, json) ?? deeperSearch(json["web_search_options"]);
}

// Perplexity's "pro" search has a fee of its own, and "auto" may choose it; the reply does not say so.
function deeperSearch(options: unknown): SharedAccountUse | undefined {
  const type = isObject(options) ? (options["search_type"] ?? "fast") : "fast";
  return type === "fast"
    ? undefined
    : { path: "web_search_options.search_type", alternative: 'Use "fast"' };
}

function referenceInTools(tools: unknown, holder = ""): SharedAccountUse | undefined {
  if (!Array.isArray(tools)) return undefined;
  for (const [index, tool] of tools.entries()) {
    if (!isObject(tool)) continue;
    const path = `${holder}tools[${index}]`;
    if (isPresent(tool["tunnel_id"]))
      return { path: `${path}.tunnel_id`, alternative: "Name the server by its `server_url`" };
    for (const stored of ["vector_store_ids", "collection_ids", "library_ids"]) {
      if (isPresent(tool[stored]))
        return { path: `${path}.${stored}`, alternative: "Send the documents in the request" };
    }
    const container = tool["container"];
    if (typeof container === "string")
      return { path: `${path}.container`, alternative: 'Use `{"type":"auto"}`' };
    const inside =
      inContainer(tool["environment"], `${path}.environment`) ??
      inContainer(container, `${path}.container`);
    if (inside !== undefined) return inside;
    const mask = tool["input_image_mask"];
    if (isObject(mask) && isPresent(mask["file_id"]))
      return {
        path: `${path}.input_image_mask.file_id`,
        alternative: "Send the image as a data URL",
      };
  }
  return undefined;
}

// The container that a tool runs in, and what is loaded into it.
function inContainer(container: unknown, path: string): SharedAccountUse | undefined {
  if (!isObject(container)) return undefined;
  if (isPresent(container["container_id"]))
    return { path: `${path}.container_id`, alternative: "Let the provider create a new container" };
  if (isPresent(container["file_ids"]))
    return { path: `${path}.file_ids`, alternative: "Send the files' content in the request" };
  const { skills } = container;
  for (const [index, skill] of (Array.isArray(skills) ? skills : []).entries())
    if (isObject(skill) && isPresent(skill["skill_id"]))
      return { path: `${path}.skills[${index}].skill_id`, alternative: "Send the skill itself" };
  return undefined;
}

// A tool that runs code reuses the container of an earlier call among the items. Without such a tool the id has no effect.
function containerReference(
  json: JsonObject,
  ownContainers: ReadonlySet<string>,
): SharedAccountUse | undefined {
  const { input } = json;
  if (!Array.isArray(input) || !toolsOf(json).some(isCodeTool)) return undefined;
  for (const [index, item] of input.entries()) {
    const foreign = containersIn(item).find(
      ({ id }) => !ownContainers.has(id) && !isForeignContainer(id),
    );
    if (foreign !== undefined)
      return {
        path: `input[${index}].${foreign.at}`,
        alternative: "Remove this item, or continue from a response that this gateway has stored",
      };
  }
  return undefined;
}

/** The containers that an item names, and their fields. */
export function containersIn(
  item: unknown,
): readonly { readonly at: string; readonly id: string }[] {
  if (!isObject(item)) return [];
  const { container_id: direct, environment } = item;
  const nested = isObject(environment) ? environment["container_id"] : undefined;
  const named = [
    { at: "container_id", id: direct },
    { at: "environment.container_id", id: nested },
  ];
  return named.filter((one): one is { at: string; id: string } => typeof one.id === "string");
}

// Clients send empty fields: null and an empty list refer to nothing.
function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0);
}

const DEPTH_MAX = 8;

function referenceInList(list: unknown, path: string, depth = 0): SharedAccountUse | undefined {
  if (!Array.isArray(list) || depth > DEPTH_MAX) return undefined;
  for (const [index, item] of list.entries()) {
    const found = isObject(item) ? referenceInItem(item, `${path}[${index}]`, depth) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

// Searches only fields in which the APIs have references: a tool's arguments may contain a `file_id` of the caller's own.
function referenceInItem(
  item: JsonObject,
  path: string,
  depth: number,
): SharedAccountUse | undefined {
  if (item["type"] === "item_reference" || isBareReference(item))
    return { path, alternative: SEND_OR_STORE_HINT };
  if (item["type"] === "container_upload")
    return { path, alternative: "Send the file's content in the request" };
  const { audio } = item;
  if (isObject(audio) && typeof audio["id"] === "string")
    return { path: `${path}.audio.id`, alternative: "Send the transcript as text" };
  return (
    referenceInTools(item["tools"], `${path}.`) ??
    (isPart(item) ? (fileReference(item, path) ?? storageUrlReference(item, path)) : undefined) ??
    nestedReference(item, path, depth + 1)
  );
}

function fileReference(part: JsonObject, path: string): SharedAccountUse | undefined {
  for (const holder of [part, part["file"], part["source"], part["image_url"]]) {
    if (isObject(holder) && typeof holder["file_id"] === "string")
      return { path: `${path}.file_id`, alternative: "Send the file's content in the request" };
  }
  return undefined;
}

// Providers read these URLs with the permissions of the account, so they could expose the gateway's own files.
const PROVIDER_STORAGE_URL =
  /^\s*(?:gs:|s3:|files\/|https?:\/\/generativelanguage\.googleapis\.com[:/])/i;

function storageUrlReference(part: JsonObject, path: string): SharedAccountUse | undefined {
  for (const name of ["image_url", "video_url", "source", "file_url", "file"]) {
    const holder = part[name];
    const url = isObject(holder) ? (holder["url"] ?? holder["file_data"]) : holder;
    if (typeof url === "string" && PROVIDER_STORAGE_URL.test(url))
      return { path: `${path}.${name}`, alternative: "Send the file's content in the request" };
  }
  return undefined;
}

function nestedReference({ output, content, source }: JsonObject, path: string, depth: number) {
  const inOutput = isObject(output)
    ? referenceInItem(output, `${path}.output`, depth)
    : referenceInList(output, `${path}.output`, depth);
  return (
    inOutput ??
    referenceInList(content, `${path}.content`, depth) ??
    // An Anthropic document may consist of several parts.
    (isObject(source)
      ? referenceInList(source["content"], `${path}.source.content`, depth)
      : undefined)
  );
}

// In OpenAI's API, the `type` of a reference is optional.
function isBareReference({ type, role, id }: JsonObject): boolean {
  return (type ?? role ?? undefined) === undefined && typeof id === "string";
}

function isPart(item: JsonObject): boolean {
  const type = item["type"];
  return (
    type === "file" ||
    type === "input_file" ||
    type === "input_image" ||
    type === "image" ||
    type === "document" ||
    type === "image_url" ||
    type === "video_url" ||
    type === "input_video" ||
    type === "computer_screenshot"
  );
}

/** What a request on the gateway's accounts must not have; `GET /protocol` publishes it. */
export interface SharedAccountRefusal {
  readonly field?: string;
  /** A pattern of names in snake case, at any depth. */
  readonly name_pattern?: string;
  readonly type?: string;
  readonly reason: "stored_at_provider" | "cost_unknown" | "price_unknown";
  readonly instead: string;
}

export function sharedAccountRefusals(): readonly SharedAccountRefusal[] {
  const reason = "stored_at_provider";
  const unbounded = new Set(UNBOUNDED_COST_FIELDS.map(([field]) => field));
  return [
    ...[...ROOT_REFERENCES]
      .filter(([field]) => !unbounded.has(field))
      .map(([field, instead]) => ({ field, reason, instead }) as const),
    ...[...ID_HOLDERS].map(
      ([holder, instead]) => ({ field: `${holder}.id`, reason, instead }) as const,
    ),
    ...REFERENCE_NAMES.map(
      ([name, instead]) => ({ name_pattern: name.source, reason, instead }) as const,
    ),
    ...[...REFERENCE_TYPES].map(([type, instead]) => ({ type, reason, instead }) as const),
    ...UNBOUNDED_COST_FIELDS.map(
      ([field, instead]) => ({ field, reason: "cost_unknown", instead }) as const,
    ),
    {
      field: "tools[].type",
      reason: "price_unknown",
      instead: "Use a tool whose fee is in the model's `pricing.fees`, or one that the client runs",
    },
  ];
}
