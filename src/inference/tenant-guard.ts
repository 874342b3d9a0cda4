// All tenants share the gateway's accounts at the providers, so an object inside such an account is nobody's own: its id
// might be another tenant's. References to them are refused on the gateway's credentials, and so is what the provider alone
// knows the price of; both are relayed on a caller's own.

import { Fault, type NextStep } from "../base/fault.ts";
import { type Ask, isObject, type Json } from "./ask.ts";
import { NO_THREADS } from "./losses.ts";
import { runsCode, toolsOf } from "./tool-fees.ts";

interface Reference {
  readonly path: string;
  readonly instead: string;
  readonly fields?: Readonly<Record<string, unknown>>;
}

const OWN_KEY = "or add your own provider key with POST /v1/provider-keys";
const SEND_WHOLE = "Send the conversation's earlier turns in the request";
const SEND_OR_STORE = `${SEND_WHOLE}, or create each of them with store: true, so that it is kept here`;

const NO_CONTAINERS: ReadonlySet<string> = new Set();

/** Why a call cannot be made on the gateway's credentials, if there is a reason. `own`: containers that are known to be the caller's. */
export function refusedOnShared(ask: Ask, own = NO_CONTAINERS): Fault | undefined {
  const { json } = ask;
  const reference =
    topLevel(json) ??
    compared(json) ??
    inTools(json["tools"]) ??
    inList(json["system"], "system") ??
    inList(json["messages"], "messages") ??
    inList(json["input"], "input") ??
    reopened(json, own);
  if (reference !== undefined) return refuseReference(reference);
  const unbounded = unboundedUse(json);
  return unbounded && refuseUnbounded(unbounded);
}

const ADD_OWN_KEY: NextStep = {
  method: "POST",
  url: "/v1/provider-keys",
  body: { provider: "openai", api_key: "<your key>" },
  why: "Use your own account at the provider.",
};

function refuseReference({ path, instead, fields = {} }: Reference): Fault {
  return new Fault("invalid_request", `reference at ${path}`, {
    message: `${path} refers to something stored in a provider's account, which all users of this gateway share. ${instead}, ${OWN_KEY}.`,
    param: path,
    next: [ADD_OWN_KEY],
    fields,
  });
}

function refuseUnbounded({ path, instead }: Reference): Fault {
  return new Fault("invalid_request", `unbounded use at ${path}`, {
    message: `What ${path} asks for has no price that this gateway could hold credits for. ${instead}, ${OWN_KEY}.`,
    param: path,
    next: [ADD_OWN_KEY],
  });
}

type Refusable = readonly (readonly [field: string, instead: string])[];

const TOP_LEVEL: Refusable = [
  ["previous_response_id", SEND_OR_STORE],
  ["conversation", SEND_WHOLE],
  ["prompt", "Send the prompt's text in the request"],
  ["container", "Let the provider make a new container"],
  ["input_file_id", "Send the file's content in the request"],
  ["cached_content", "Send the content in the request"],
  ["preset", "Send its settings in the request"],
  ["batch_id", "Send the requests one by one"],
  ["user_profile_id", "Leave it out"],
];

const LATER = [
  ["background", "Add store: true, so that the reply is kept here instead"],
  ["deferred", "Leave it out and stream the reply"],
] as const;

function givenOf(fields: Refusable, json: Json): Reference | undefined {
  for (const [path, instead] of fields) {
    if (isGiven(json[path])) return { path, instead };
  }
  return undefined;
}

function topLevel(json: Json): Reference | undefined {
  const given = givenOf(TOP_LEVEL, json);
  if (given !== undefined) return given;
  if (isGiven(json["thread"])) return { path: "thread", instead: SEND_WHOLE, fields: NO_THREADS };
  for (const [path, instead] of LATER) {
    if (json[path] === true) return { path, instead };
  }
  const { extra_body: extra, audio } = json;
  const voice = isObject(audio) ? audio["voice"] : undefined;
  if (isObject(voice) && isGiven(voice["id"]))
    return { path: "audio.voice.id", instead: "Name one of the built-in voices" };
  const google = isObject(extra) ? extra["google"] : undefined;
  if (isObject(google) && isGiven(google["cached_content"]))
    return {
      path: "extra_body.google.cached_content",
      instead: "Send the content in the request",
    };
  return undefined;
}

/** Earlier replies in the provider's account, with which a new one is compared. */
const COMPARED = [
  ["prompt_cache_options", "comparison_response_id"],
  ["diagnostics", "previous_message_id"],
] as const;

function compared(json: Json): Reference | undefined {
  for (const [holder, field] of COMPARED) {
    const held = json[holder];
    if (isObject(held) && typeof held[field] === "string")
      return { path: `${holder}.${field}`, instead: "Leave it out" };
  }
  return undefined;
}

const UNBOUNDED: Refusable = [
  ["fallbacks", "Name the models to fall back on in `models`, which this gateway tries itself"],
  ["plugins", "Use the model's own tools"],
  ["data_sources", "Send the documents in the request"],
];

/** What makes the provider ask other models or services, at prices that it alone knows. */
function unboundedUse(json: Json): Reference | undefined {
  return givenOf(UNBOUNDED, json) ?? deeperSearch(json["web_search_options"]);
}

// Perplexity's search in several steps has a fee of its own, and "auto" may be it; no reply says which it was.
function deeperSearch(options: unknown): Reference | undefined {
  const type = isObject(options) ? (options["search_type"] ?? "fast") : "fast";
  return type === "fast"
    ? undefined
    : { path: "web_search_options.search_type", instead: 'Say "fast"' };
}

function inTools(tools: unknown, holder = ""): Reference | undefined {
  for (const [place, tool] of (Array.isArray(tools) ? tools : []).entries()) {
    if (!isObject(tool)) continue;
    const path = `${holder}tools[${place}]`;
    if (isGiven(tool["tunnel_id"]))
      return { path: `${path}.tunnel_id`, instead: "Name the server by its server_url" };
    for (const stored of ["vector_store_ids", "collection_ids", "library_ids"]) {
      if (isGiven(tool[stored]))
        return { path: `${path}.${stored}`, instead: "Send the documents in the request" };
    }
    const container = tool["container"];
    if (typeof container === "string")
      return { path: `${path}.container`, instead: 'Use {"type":"auto"}' };
    const inside =
      inContainer(tool["environment"], `${path}.environment`) ??
      inContainer(container, `${path}.container`);
    if (inside !== undefined) return inside;
    const mask = tool["input_image_mask"];
    if (isObject(mask) && isGiven(mask["file_id"]))
      return { path: `${path}.input_image_mask.file_id`, instead: "Send the image as a data URL" };
  }
  return undefined;
}

// Where a tool runs: a container of its own, with what lies in it from the beginning.
function inContainer(container: unknown, path: string): Reference | undefined {
  if (!isObject(container)) return undefined;
  if (isGiven(container["container_id"]))
    return { path: `${path}.container_id`, instead: "Let the provider make a new container" };
  if (isGiven(container["file_ids"]))
    return { path: `${path}.file_ids`, instead: "Send the files' content in the request" };
  const { skills } = container;
  for (const [place, skill] of (Array.isArray(skills) ? skills : []).entries())
    if (isObject(skill) && isGiven(skill["skill_id"]))
      return { path: `${path}.skills[${place}].skill_id`, instead: "Send the skill itself" };
  return undefined;
}

// A tool that runs code goes on in the container of an earlier call among the items. Without such a tool its name is history.
function reopened(json: Json, own: ReadonlySet<string>): Reference | undefined {
  const { input } = json;
  if (!Array.isArray(input) || !toolsOf(json).some(runsCode)) return undefined;
  for (const [place, item] of input.entries()) {
    const foreign = containersIn(item).find(({ id }) => !own.has(id));
    if (foreign !== undefined)
      return {
        path: `input[${place}].${foreign.at}`,
        instead: "Leave out this item, or go on from a response that was created with store: true",
      };
  }
  return undefined;
}

/** The containers that an item of a conversation names, and where. */
export function containersIn(
  item: unknown,
): readonly { readonly at: string; readonly id: string }[] {
  if (!isObject(item)) return [];
  const { container_id: own, environment } = item;
  const around = isObject(environment) ? environment["container_id"] : undefined;
  const named = [
    { at: "container_id", id: own },
    { at: "environment.container_id", id: around },
  ];
  return named.filter((one): one is { at: string; id: string } => typeof one.id === "string");
}

// Clients write out what they leave empty: null and an empty list refer to nothing.
function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0);
}

const DEPTH_MAX = 8;

function inList(list: unknown, path: string, depth = 0): Reference | undefined {
  if (!Array.isArray(list) || depth > DEPTH_MAX) return undefined;
  for (const [place, item] of list.entries()) {
    const found = isObject(item) ? inItem(item, `${path}[${place}]`, depth) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

// Only the places where the APIs keep references are looked at: a tool's arguments may have a `file_id` of their own.
function inItem(item: Json, path: string, depth: number): Reference | undefined {
  if (item["type"] === "item_reference" || isBareReference(item))
    return { path, instead: SEND_OR_STORE };
  if (item["type"] === "container_upload")
    return { path, instead: "Send the file's content in the request" };
  const { audio } = item;
  if (isObject(audio) && typeof audio["id"] === "string")
    return { path: `${path}.audio.id`, instead: "Send the text of what was said" };
  return (
    inTools(item["tools"], `${path}.`) ??
    (isPart(item) ? (fileOf(item, path) ?? lentAddress(item, path)) : undefined) ??
    within(item, path, depth + 1)
  );
}

function fileOf(part: Json, path: string): Reference | undefined {
  for (const holder of [part, part["file"], part["source"], part["image_url"]]) {
    if (isObject(holder) && typeof holder["file_id"] === "string")
      return { path: `${path}.file_id`, instead: "Send the file's content in the request" };
  }
  return undefined;
}

// Providers open these as the account that asks: what lies there may be the gateway's own.
const LENT_ADDRESS = /^\s*(?:gs:|s3:|files\/|https?:\/\/generativelanguage\.googleapis\.com[:/])/i;

function lentAddress(part: Json, path: string): Reference | undefined {
  for (const name of ["image_url", "video_url", "source", "file_url", "file"]) {
    const holder = part[name];
    const url = isObject(holder) ? (holder["url"] ?? holder["file_data"]) : holder;
    if (typeof url === "string" && LENT_ADDRESS.test(url))
      return { path: `${path}.${name}`, instead: "Send the file's content in the request" };
  }
  return undefined;
}

function within({ output, content, source }: Json, path: string, depth: number) {
  const inOutput = isObject(output)
    ? inItem(output, `${path}.output`, depth)
    : inList(output, `${path}.output`, depth);
  return (
    inOutput ??
    inList(content, `${path}.content`, depth) ??
    // A document of several parts, as Anthropic has it.
    (isObject(source) ? inList(source["content"], `${path}.source.content`, depth) : undefined)
  );
}

// An id alone is a reference as well: OpenAI's `type` may be left out there.
function isBareReference({ type, role, id }: Json): boolean {
  return (type ?? role ?? undefined) === undefined && typeof id === "string";
}

function isPart(item: Json): boolean {
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
