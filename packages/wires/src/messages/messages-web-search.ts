// Anthropic's web search: a tool in the request, a call and its result as two blocks in the reply.

import type {
  SearchReplyForm,
  SearchRequestForm,
  SearchSource,
} from "../canonical/tools/canonical-web-search.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  objectIn,
  optionalInteger,
  stringIn,
  unknownFields,
} from "../json-fields.ts";
import { otherSearchFields, readDomains, readLocation, writeLocation } from "../search-settings.ts";
import {
  addSettingHintLoss,
  addSettingLoss,
  takeNativeTool,
  withTool,
} from "../server-tool-fields.ts";
import { FOREIGN_USE, nativeBlock } from "./messages-server-calls.ts";

/** The version that every model takes; later ones run code to filter the results. */
const TOOL_TYPE = "web_search_20250305";
const NAME = "web_search";
const USES_MAX = 1_000_000;
const FIELDS: ReadonlySet<string> = new Set(
  "type name max_uses allowed_domains blocked_domains user_location".split(" "),
);

export const messagesSearch: SearchRequestForm = {
  read(request) {
    const taken = takeNativeTool(request, "messages", /^web_search_\d{8}$/);
    if (taken === undefined) return undefined;
    const { value, path, isRequired, rest } = taken;
    const uses = optionalInteger(value["max_uses"], `${path}.max_uses`, 1, USES_MAX);
    return {
      tool: {
        path,
        allowedDomains: readDomains(value["allowed_domains"], `${path}.allowed_domains`),
        blockedDomains: readDomains(value["blocked_domains"], `${path}.blocked_domains`),
        location: readLocation(value["user_location"], `${path}.user_location`),
        maxUses: uses === undefined ? undefined : { value: uses, path: `${path}.max_uses` },
        isRequired,
        losses: otherSearchFields(unknownFields(value, FIELDS), path, "messages"),
      },
      rest,
    };
  },
  write(request, search, _target, losses) {
    const { allowedDomains, blockedDomains, maxUses, isRequired } = search;
    addSettingHintLoss(losses, search.contextSize);
    if (allowedDomains !== undefined)
      addSettingLoss(
        losses,
        blockedDomains,
        "This provider does not accept allowed and blocked domains together.",
      );
    const sent = withTool(request, "messages", NAME, {
      type: TOOL_TYPE,
      name: NAME,
      max_uses: maxUses?.value,
      allowed_domains: allowedDomains?.value,
      blocked_domains: allowedDomains === undefined ? blockedDomains?.value : undefined,
      user_location: writeLocation(search),
    });
    return isRequired === true ? { ...sent, toolChoice: { type: "tool", name: NAME } } : sent;
  },
};

export const messagesSearchReply: SearchReplyForm = {
  createReader() {
    const queries = new Map<unknown, string>();
    return ({ value }) => {
      const { type, name, id, tool_use_id: callId } = value;
      if (type === "server_tool_use" && name === NAME) {
        queries.set(id, stringIn(objectIn(value["input"])?.["query"]) ?? "");
        return { kind: "pending" };
      }
      const query = queries.get(callId);
      if (type !== "web_search_tool_result" || query === undefined) return undefined;
      const sources = arrayIn(value["content"]).flatMap((one): readonly SearchSource[] => {
        const url = isObject(one) ? stringIn(one["url"]) : undefined;
        return url === undefined || !isObject(one) ? [] : [{ url, title: stringIn(one["title"]) }];
      });
      return { kind: "call", call: { queries: query === "" ? [] : [query], sources } };
    };
  },
  writeCall({ queries, sources, error }, id) {
    const caller = { type: "direct" };
    const use = FOREIGN_USE + id;
    const results = sources.map(({ url, title, content, age }) => ({
      type: "web_search_result",
      url,
      title: title ?? url,
      encrypted_content: content === undefined ? "" : encodeContent(content),
      page_age: age ?? null,
    }));
    const content =
      error === undefined ? results : { type: "web_search_tool_result_error", error_code: error };
    return [
      nativeBlock({
        type: "server_tool_use",
        id: use,
        name: NAME,
        input: { query: queries.join("; ") },
        caller,
      }),
      nativeBlock({ type: "web_search_tool_result", tool_use_id: use, content, caller }),
    ];
  },
};

/** Marks content that this gateway wrote. It is not secret: the model has read it to answer the caller. */
const CONTENT_PREFIX = "pst1_";

function encodeContent(content: string): string {
  return CONTENT_PREFIX + Buffer.from(content).toString("base64url");
}

/** The results of a search that the gateway ran; undefined for those of a provider, which only that provider can read. */
export function ownSearchSources({ content }: JsonObject): readonly SearchSource[] | undefined {
  const results = arrayIn(content).filter(isObject);
  const sources = results.flatMap(
    ({ url, title, encrypted_content: encoded, page_age: age }): readonly SearchSource[] => {
      if (typeof url !== "string" || typeof encoded !== "string") return [];
      if (!encoded.startsWith(CONTENT_PREFIX)) return [];
      const text = Buffer.from(encoded.slice(CONTENT_PREFIX.length), "base64url").toString();
      return [{ url, title: stringIn(title), content: text, age: stringIn(age) }];
    },
  );
  return sources.length === results.length ? sources : undefined;
}
