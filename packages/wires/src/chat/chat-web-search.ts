// Web search on Chat Completions: an option of models that search, or OpenRouter's tool. Replies have only citations.

import { addFieldLoss } from "../canonical/canonical-losses.ts";
import type { CanonicalRequest } from "../canonical/canonical-request.ts";
import type {
  SearchReplyForm,
  SearchRequestForm,
  WebSearch,
} from "../canonical/tools/canonical-web-search.ts";
import { type JsonObject, optionalInteger, optionalObject, unknownFields } from "../json-fields.ts";
import {
  otherSearchFields,
  readContextSize,
  readDomains,
  readLocation,
} from "../search-settings.ts";
import {
  addSettingHintLoss,
  addSettingLoss,
  withNativeField,
  withoutTool,
} from "../server-tool-fields.ts";

const OPTIONS = "web_search_options";
const OPENROUTER_TOOL = "openrouter:web_search";
const USES_MAX = 1_000_000;
const OPTION_FIELDS: ReadonlySet<string> = new Set(["search_context_size", "user_location"]);
const PARAMETER_FIELDS: ReadonlySet<string> = new Set(
  "max_uses search_context_size user_location allowed_domains excluded_domains".split(" "),
);

export const chatSearch: SearchRequestForm = {
  read(request) {
    const tool = request.tools?.find(
      (one) => one.type === "native" && one.wire === "chat" && one.name === OPENROUTER_TOOL,
    );
    if (tool?.type === "native") {
      const path = `${tool.path ?? "tools"}.parameters`;
      const parameters = optionalObject(tool.value["parameters"], path) ?? {};
      return { tool: readParameters(parameters, path), rest: withoutTool(request, tool) };
    }
    const { native } = request;
    const value = native?.wire === "chat" ? native.fields[OPTIONS] : undefined;
    const options = optionalObject(value, OPTIONS);
    return options && { tool: readOptions(options), rest: withoutOptions(request) };
  },
  isOfferedBy: ({ abilities }) => abilities?.webSearchOptions === true,
  write(request, search, _target, losses) {
    const { allowedDomains, blockedDomains, maxUses, contextSize, isRequired } = search;
    for (const one of [allowedDomains, blockedDomains])
      addSettingLoss(losses, one, "This provider cannot restrict a search to domains.");
    addSettingHintLoss(losses, maxUses);
    if (isRequired === true)
      addFieldLoss(losses, request, "toolChoice", "This provider cannot require a search.");
    const options = {
      search_context_size: contextSize?.value,
      user_location: search.location && { type: "approximate", approximate: search.location.value },
    };
    return withNativeField(request, "chat", { [OPTIONS]: options }, losses);
  },
};

/** OpenRouter's plugin `web` as its newer tool. */
export function searchToolOf(plugin: JsonObject): JsonObject {
  const { id: _id, enabled: _enabled, include_domains, exclude_domains, ...settings } = plugin;
  const parameters = {
    ...settings,
    allowed_domains: include_domains,
    excluded_domains: exclude_domains,
  };
  return { type: OPENROUTER_TOOL, parameters };
}

function readOptions(options: JsonObject): WebSearch {
  return {
    path: OPTIONS,
    location: readLocation(options["user_location"], `${OPTIONS}.user_location`, "approximate"),
    contextSize: readContextSize(options["search_context_size"], `${OPTIONS}.search_context_size`),
    losses: otherSearchFields(unknownFields(options, OPTION_FIELDS), OPTIONS, "chat"),
  };
}

function readParameters(parameters: JsonObject, path: string): WebSearch {
  const uses = optionalInteger(parameters["max_uses"], `${path}.max_uses`, 1, USES_MAX);
  return {
    path: path.replace(/\.parameters$/, ""),
    allowedDomains: readDomains(parameters["allowed_domains"], `${path}.allowed_domains`),
    blockedDomains: readDomains(parameters["excluded_domains"], `${path}.excluded_domains`),
    location: readLocation(parameters["user_location"], `${path}.user_location`),
    contextSize: readContextSize(parameters["search_context_size"], `${path}.search_context_size`),
    maxUses: uses === undefined ? undefined : { value: uses, path: `${path}.max_uses` },
    losses: otherSearchFields(unknownFields(parameters, PARAMETER_FIELDS), path, "chat"),
  };
}

function withoutOptions(request: CanonicalRequest): CanonicalRequest {
  const { [OPTIONS]: _options, ...fields } = request.native?.fields ?? {};
  return {
    ...request,
    native: Object.keys(fields).length === 0 ? undefined : { wire: "chat", fields },
  };
}

export const chatSearchReply: SearchReplyForm = {
  createReader: () => () => undefined,
  writeCall: () => [],
};
