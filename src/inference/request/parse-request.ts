// Parses the parts of a request that the gateway itself needs: the model, streaming, and what bounds the cost. All other
// fields are for the provider.

import {
  API_TRAITS,
  type ApiTraits,
  chatFromResponses,
  InvalidRequest,
  type RelayedApi,
} from "@postern/wires";
import { Fault, invalid } from "../../base/fault.ts";
import {
  isObject,
  type JsonObject,
  optionalBoolean,
  optionalInteger,
  optionalString,
  valueAt,
} from "../../base/json.ts";
import { closestName } from "../../base/text/suggest.ts";
import { parseJsonBody } from "../../http/request/body.ts";
import { rejectAmbiguousMembers } from "./ambiguous-members.ts";
import { commonForm } from "./common-form.ts";
import { memberSpans, type ObjectSpans, withChanges } from "./json-edit.ts";
import { toolBounds, type ToolBounds } from "./tool-bounds.ts";

export type Api = "chat" | "responses" | "messages" | "gemini" | RelayedApi;

export interface ParsedRequest extends ToolBounds {
  readonly api: Api;
  readonly text: string;
  readonly spans: ObjectSpans;
  readonly json: JsonObject;
  /** The body by the caller's names, if the API has several for a field. */
  readonly sentJson?: JsonObject | undefined;
  readonly model: string;
  readonly stream: boolean;
  /** Whether the caller asked for the usage of a chat stream. */
  readonly wantsUsage: boolean;
  /** The caller's output limit, for each choice. */
  readonly outputMax: number | undefined;
  readonly choices: number;
  /** The fields for the gateway itself, which no provider gets. */
  readonly gatewayFields: readonly string[];
  readonly serviceTier: string | undefined;
  readonly speed: string | undefined;
}

const MAX_CHOICES = 128;
const MAX_OUTPUT_TOKENS = 100_000_000;
const MODEL_NAME_MAX_LENGTH = 256;

/** Parses and validates the body of a model call, or of a token count, which needs no output limit. */
export function parseRequest(
  api: Api,
  sent: string,
  purpose: "call" | "count" = "call",
): ParsedRequest {
  const traits = API_TRAITS[api];
  const { text, json, sentJson } = readBody(sent, traits);
  const spans = memberSpans(text);
  // An empty body is read as an empty object, which has no members.
  if (spans === undefined)
    throw invalid("model", "`model` is required: an id from GET /v1/models.");
  rejectAmbiguousMembers(text, spans, json);
  const common = commonForm({ api, json });
  rejectTooMany(common, { messages: traits.inputField });
  const bounds = toolBounds(common);
  const gatewayFields = gatewayFieldsOf(traits, json);
  const { model, outputMax } = namingMisspelt(traits, json, () =>
    readRequired(traits, json, purpose),
  );
  const { choicesField } = traits;
  const choices =
    choicesField === undefined
      ? 1
      : (optionalInteger(memberAt(json, choicesField), choicesField, 1, MAX_CHOICES) ?? 1);
  const options = json["stream_options"];
  return {
    api,
    text,
    spans,
    json,
    sentJson,
    ...bounds,
    gatewayFields,
    model,
    stream: isStream(traits, json),
    wantsUsage: isObject(options) && options["include_usage"] === true,
    outputMax: traits.relayed === undefined ? outputMax : traits.relayed.outputTokensMax(json),
    choices,
    serviceTier: optionalString(json[traits.serviceTierField], traits.serviceTierField),
    speed: optionalString(json["speed"], "speed"),
  };
}

function readRequired(
  traits: ApiTraits,
  json: JsonObject,
  purpose: "call" | "count",
): { readonly model: string; readonly outputMax: number | undefined } {
  const model = withSuffix(readModel(json, traits.relayed?.defaultModel), traits);
  asInvalidFault(() => validateContent(traits, json));
  let outputMax: number | undefined;
  for (const field of purpose === "count" ? [] : traits.outputLimitFields) {
    const limit = optionalInteger(memberAt(json, field), field, 1, MAX_OUTPUT_TOKENS);
    if (limit !== undefined) outputMax = Math.max(outputMax ?? limit, limit);
  }
  if (traits.requiresOutputLimit && purpose === "call" && outputMax === undefined)
    throw invalid("max_tokens", "`max_tokens` is required on POST /v1/messages.");
  return { model, outputMax };
}

/** If a required field is missing and an unknown one has nearly its name, the error names that one. */
function namingMisspelt<T>({ knownFields }: ApiTraits, json: JsonObject, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const field = error instanceof Fault ? error.options.param : undefined;
    // A path leads to a field that was sent.
    if (field === undefined || /[.[]/.test(field) || json[field] !== undefined) throw error;
    const unknown = Object.keys(json).filter((name) => !knownFields.has(name));
    const sent = closestName(field, unknown.slice(0, UNKNOWN_FIELDS_MAX));
    throw sent === undefined ? error : misspeltField(sent, field);
  }
}

/** In a large body the first unknown fields are enough. */
const UNKNOWN_FIELDS_MAX = 100;

function misspeltField(sent: string, field: string): Fault {
  const message = `Unknown field \`${sent}\`. Did you mean \`${field}\`?`;
  return new Fault("invalid_request", message, { message, param: sent, isUnknownField: true });
}

function isStream({ relayed, generates }: ApiTraits, json: JsonObject): boolean {
  if (relayed?.stream !== undefined) return relayed.stream.isStream(json);
  return generates && optionalBoolean(json["stream"], "stream") === true;
}

/** The body in the form of the API that was called. */
function readBody(
  text: string,
  traits: ApiTraits,
): Pick<ParsedRequest, "text" | "json" | "sentJson"> {
  const json = parseJsonBody(text);
  if (!isObject(json)) throw invalid(undefined, "The body must be a JSON object.");
  const normalized = asInvalidFault(() => traits.normalize?.(json) ?? json);
  if (normalized !== json) {
    const named = withChanges(text, json, normalized, traits.memberName);
    return { ...readRewritten(named), sentJson: json };
  }
  const zeros = zeroLimits(json, traits);
  const searching = searchMembers(json, traits);
  if (zeros.length > 0 || searching !== undefined)
    return readRewritten(
      withChanges(text, json, {
        ...json,
        ...searching,
        ...Object.fromEntries(zeros.map((name) => [name, undefined])),
      }),
    );
  if (traits.acceptsOtherForm !== true || json["messages"] !== undefined) return { text, json };
  const rewritten = asInvalidFault(() => chatFromResponses(json));
  return rewritten === undefined ? { text, json } : readRewritten(JSON.stringify(rewritten));
}

function asInvalidFault<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof InvalidRequest) throw invalid(error.path, error.message);
    throw error;
  }
}

const ONLINE = ":online";

/** OpenRouter's suffix for a model that searches the web: the same as the search of the API. */
function onlineMembers(json: JsonObject, { withSearch }: ApiTraits): JsonObject | undefined {
  const { model } = json;
  if (withSearch === undefined || typeof model !== "string" || !model.endsWith(ONLINE))
    return undefined;
  return { model: model.slice(0, -ONLINE.length), ...withSearch(json) };
}

/** OpenRouter's two ways to ask for a search beside its tool: the suffix, and the plugin `web`. */
function searchMembers(json: JsonObject, traits: ApiTraits): JsonObject | undefined {
  const online = onlineMembers(json, traits);
  return online ?? pluginMembers(json, traits);
}

function pluginMembers(
  json: JsonObject,
  { withSearch, withWebPlugin }: ApiTraits,
): JsonObject | undefined {
  const { plugins } = json;
  const [plugin] = Array.isArray(plugins) && plugins.length === 1 ? plugins.filter(isObject) : [];
  if (withSearch === undefined || plugin?.["id"] !== "web") return undefined;
  if (plugin["enabled"] === false) return { plugins: undefined };
  return { plugins: undefined, ...(withWebPlugin?.(json, plugin) ?? withSearch(json)) };
}

/** Some clients send 0 for no limit. */
function zeroLimits(
  json: JsonObject,
  { requiresOutputLimit, outputLimitFields }: ApiTraits,
): readonly string[] {
  if (requiresOutputLimit || !outputLimitFields.some((name) => json[name] === 0)) return NO_FIELDS;
  return outputLimitFields.filter((name) => json[name] === 0);
}

/** Parsed again, because members that are undefined are not in the text. */
function readRewritten(text: string): { readonly text: string; readonly json: JsonObject } {
  const json: unknown = JSON.parse(text);
  return { text, json: isObject(json) ? json : {} };
}

/** A dot leads into an object. */
function memberAt(json: JsonObject, field: string): unknown {
  return field.includes(".") ? valueAt(json, field.split(".")) : json[field];
}

const GATEWAY_FIELDS = ["models", "provider", "postern"] as const;
const OPTION_FIELDS = ["postern"] as const;
const NO_FIELDS: readonly string[] = [];

function gatewayFieldsOf({ generates }: ApiTraits, json: JsonObject): readonly string[] {
  if (!generates) return json["postern"] === undefined ? NO_FIELDS : OPTION_FIELDS;
  return GATEWAY_FIELDS.some((field) => json[field] !== undefined) ? GATEWAY_FIELDS : NO_FIELDS;
}

function withSuffix(model: string, { relayed }: ApiTraits): string {
  const suffix = relayed?.modelSuffix ?? "";
  return model.endsWith(suffix) ? model : model + suffix;
}

function readModel(json: JsonObject, defaultModel: string | undefined): string {
  const { models } = json;
  // Without `model`, the first of `models` is the requested one.
  const model: unknown =
    json["model"] ?? defaultModel ?? (Array.isArray(models) ? models[0] : undefined);
  if (model === undefined || model === null)
    throw invalid("model", "`model` is required: an id from GET /v1/models.");
  if (typeof model !== "string" || model === "")
    throw invalid("model", "`model` must be a string: an id from GET /v1/models.");
  if (model.length > MODEL_NAME_MAX_LENGTH)
    throw invalid(
      "model",
      `\`model\` must have at most ${MODEL_NAME_MAX_LENGTH} characters: an id from GET /v1/models.`,
    );
  return model;
}

const APIS_OF_FIELDS = {
  input: "POST /v1/responses",
  messages: "POST /v1/chat/completions and POST /v1/messages",
  contents: "POST /v1beta/models/{model}:generateContent",
} as const;

/** For a request in the form of another API. */
function otherApiHint(json: JsonObject, own: keyof typeof APIS_OF_FIELDS): string {
  const found = Object.entries(APIS_OF_FIELDS).find(
    ([field]) => field !== own && json[field] !== undefined,
  );
  return found === undefined ? "" : ` \`${found[0]}\` is a field of ${found[1]}.`;
}

function validateContent(
  { inputField, requiresRoles, inputAlternative, backgroundField, relayed }: ApiTraits,
  json: JsonObject,
): void {
  if (relayed !== undefined) {
    relayed.check(json);
    return;
  }
  if (inputField !== "input") {
    const messages = json[inputField];
    if (messages === undefined)
      throw invalid(inputField, `\`${inputField}\` is required.${otherApiHint(json, inputField)}`);
    if (!Array.isArray(messages) || messages.length === 0)
      throw invalid(inputField, `\`${inputField}\` must be an array of at least one message.`);
    messages.forEach((message: unknown, index) => {
      const path = `${inputField}[${index}]`;
      if (!isObject(message)) throw invalid(path, `\`${path}\` must be an object.`);
      if (requiresRoles === true && typeof message["role"] !== "string")
        throw invalid(`${path}.role`, `\`${path}.role\` must be a string.`);
    });
    return;
  }
  const input = json["input"];
  if (input !== undefined && typeof input !== "string" && !Array.isArray(input))
    throw invalid("input", "`input` must be a string or an array.");
  const alternative = inputAlternative === undefined ? undefined : json[inputAlternative];
  if (input === undefined && alternative === undefined)
    throw invalid("input", `\`input\` is required.${otherApiHint(json, "input")}`);
  if (backgroundField !== undefined) optionalBoolean(json[backgroundField], backgroundField);
}

// Limits of what a request may contain by number, so that no request occupies the event loop for long: each item costs time
// that its bytes do not show. They apply to every path, also where the body is passed on unchanged.

/** Twice what the longest recorded agent sessions have, and above what providers accept in practice. */
const MESSAGES_MAX = 20_000;
const PARTS_MAX = 20_000;
const DOCUMENTS_MAX = 10_000;
const TOOLS_MAX = 5_000;

const LISTS = ["messages", "input", "system"] as const;
const DOCUMENT_TYPES: ReadonlySet<unknown> = new Set(["document", "file", "input_file"]);

/** `names` are those of the caller, where they differ. */
function rejectTooMany(json: JsonObject, names: Readonly<Record<string, string>> = {}): void {
  const { tools } = json;
  if (Array.isArray(tools)) rejectAbove("tools", countTools(tools), TOOLS_MAX, "tools");
  const counts = { parts: 0, documents: 0 };
  for (const field of LISTS) {
    const list = json[field];
    if (!Array.isArray(list) || typeof list[0] === "number") continue;
    const name = names[field] ?? field;
    rejectAbove(name, list.length, MESSAGES_MAX, "items");
    for (const part of list) countParts(part, counts);
    rejectAbove(name, counts.parts, PARTS_MAX, "content parts");
    rejectAbove(name, counts.documents, DOCUMENTS_MAX, "documents");
  }
}

// A namespace of the Responses API is a tool that contains tools.
function countTools(tools: readonly unknown[]): number {
  return tools.reduce<number>(
    (sum, tool) =>
      sum + 1 + (isObject(tool) && Array.isArray(tool["tools"]) ? tool["tools"].length : 0),
    0,
  );
}

interface PartCounts {
  parts: number;
  documents: number;
}

/** The parts of a message, and those of a tool result in it. */
function countParts(part: unknown, counts: PartCounts, isNested = false): void {
  if (!isObject(part)) return;
  if (DOCUMENT_TYPES.has(part["type"])) counts.documents++;
  for (const list of [part["content"], part["output"], part["tool_calls"]]) {
    if (!Array.isArray(list)) continue;
    counts.parts += list.length;
    if (!isNested) list.forEach((nested) => countParts(nested, counts, true));
  }
}

function rejectAbove(param: string, count: number, max: number, what: string): void {
  if (count > max)
    throw invalid(
      param,
      `\`${param}\` has ${count} ${what}, and a request may have at most ${max}. Send fewer, or join short ones.`,
    );
}
