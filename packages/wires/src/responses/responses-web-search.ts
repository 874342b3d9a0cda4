// OpenAI's and xAI's web search: a tool in the request, items in the reply.

import type { CanonicalRequest } from "../canonical/canonical-request.ts";
import type {
  SearchReplyForm,
  SearchRequestForm,
  SearchSource,
  WebSearch,
} from "../canonical/tools/canonical-web-search.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  objectIn,
  optionalInteger,
  optionalObject,
  stringIn,
  unknownFields,
} from "../json-fields.ts";
import {
  otherSearchFields,
  readContextSize,
  readDomains,
  readLocation,
  writeLocation,
} from "../search-settings.ts";
import {
  addSettingHintLoss,
  addSettingLoss,
  type TakenTool,
  takeNativeTool,
  withNativeField,
  withTool,
  withoutIncluded,
  withoutNativeFields,
} from "../server-tool-fields.ts";

const TYPE = /^web_search(_preview)?(_\d{4}_\d\d_\d\d)?$/;
const LIMIT = "max_tool_calls";
const LIMIT_MAX = 1_000_000;
const SOURCES = "web_search_call.action.sources";
const FIELDS: ReadonlySet<string> = new Set(
  "type filters search_context_size user_location".split(" "),
);
const FILTERS: ReadonlySet<string> = new Set(["allowed_domains", "excluded_domains"]);

export const responsesSearch: SearchRequestForm = {
  read(request) {
    const taken = takeNativeTool(request, "responses", TYPE);
    if (taken === undefined) return undefined;
    const limit = readLimit(request);
    const maxUses = limit === undefined ? undefined : { value: limit, path: LIMIT };
    const { isRequired, rest } = taken;
    return {
      tool: { ...readTool(taken), isRequired, maxUses },
      rest: withoutIncluded(withoutNativeFields(rest, "responses", [LIMIT]), SOURCES),
    };
  },
  write(request, search, { provider }, losses) {
    const { allowedDomains, blockedDomains, maxUses, contextSize, isRequired } = search;
    const isXai = provider === "xai";
    if (isXai) for (const one of [search.location, contextSize]) addSettingHintLoss(losses, one);
    else addSettingLoss(losses, blockedDomains, "This provider does not support blocked domains.");
    const filters = {
      allowed_domains: allowedDomains?.value,
      excluded_domains: isXai ? blockedDomains?.value : undefined,
    };
    const sent = withTool(request, "responses", "web_search", {
      type: "web_search",
      filters: Object.values(filters).some((one) => one !== undefined) ? filters : undefined,
      search_context_size: isXai ? undefined : contextSize?.value,
      user_location: isXai ? undefined : writeLocation(search),
    });
    const limited =
      maxUses === undefined
        ? sent
        : withNativeField(sent, "responses", { [LIMIT]: maxUses.value }, losses);
    return isRequired === true
      ? {
          ...limited,
          toolChoice: { type: "native", wire: "responses", value: { type: "web_search" } },
        }
      : limited;
  },
};

function readTool({ value, path }: Pick<TakenTool, "value" | "path">): WebSearch {
  const at = `${path}.filters`;
  const filters = optionalObject(value["filters"], at);
  return {
    path,
    allowedDomains: readDomains(filters?.["allowed_domains"], `${at}.allowed_domains`),
    blockedDomains: readDomains(filters?.["excluded_domains"], `${at}.excluded_domains`),
    location: readLocation(value["user_location"], `${path}.user_location`),
    contextSize: readContextSize(value["search_context_size"], `${path}.search_context_size`),
    losses: [
      ...otherSearchFields(unknownFields(value, FIELDS), path, "responses"),
      ...otherSearchFields(filters && unknownFields(filters, FILTERS), at, "responses"),
    ],
  };
}

// The limit counts the calls of all tools that the provider runs. Of those, only a search takes a limit at other providers.
function readLimit({ native }: CanonicalRequest): number | undefined {
  const value = native?.wire === "responses" ? native.fields[LIMIT] : undefined;
  return optionalInteger(value, LIMIT, 1, LIMIT_MAX);
}

export const responsesSearchReply: SearchReplyForm = {
  createReader:
    () =>
    ({ value }) => {
      const action = objectIn(value["action"]);
      if (value["type"] !== "web_search_call" || action?.["type"] !== "search") return undefined;
      const query = stringIn(action["query"]);
      const listed = arrayIn(action["queries"]).filter((one) => typeof one === "string");
      const queries = listed.length > 0 || query === undefined ? listed : [query];
      const sources = arrayIn(action["sources"]).flatMap((one): readonly SearchSource[] => {
        const url = isObject(one) ? stringIn(one["url"]) : undefined;
        return url === undefined ? [] : [{ url }];
      });
      return { kind: "call", call: { queries, sources } };
    },
  writeCall: ({ queries, sources, error }, id) => {
    const action: JsonObject = {
      type: "search",
      query: queries[0] ?? "",
      queries,
      sources: sources.map(({ url }) => ({ type: "url", url })),
    };
    const status = error === undefined ? "completed" : "failed";
    const value = { id: `ws_${id}`, type: "web_search_call", status, action };
    return [{ type: "native", wire: "responses", value }];
  },
};
