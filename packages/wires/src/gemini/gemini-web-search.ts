// Grounding with Google Search: a tool without settings, and metadata of the reply.

import type {
  SearchReplyForm,
  SearchRequestForm,
  SearchSource,
} from "../canonical/tools/canonical-web-search.ts";
import { arrayIn, isObject, objectIn, stringIn } from "../json-fields.ts";
import { addSettingHintLoss, addSettingLoss } from "../server-tool-fields.ts";
import { findServerTool, withServerTool } from "./gemini-server-tools.ts";

export const geminiSearch: SearchRequestForm = {
  read: (request) => findServerTool(request, /^googleSearch(?:Retrieval)?$/),
  write(request, search, target, losses) {
    const { allowedDomains, blockedDomains } = search;
    for (const one of [search.location, search.contextSize, search.maxUses])
      addSettingHintLoss(losses, one);
    for (const one of [allowedDomains, blockedDomains])
      addSettingLoss(losses, one, "This provider cannot restrict a search to domains.");
    return withServerTool(request, { tool: search, title: "web search", target }, losses, {
      googleSearch: {},
    });
  },
};

/** The queries of a reply, as a part after its text. */
export const SEARCH_QUERIES_FIELD = "webSearchQueries";

export const geminiSearchReply: SearchReplyForm = {
  createReader:
    () =>
    ({ value }) => {
      const listed = value[SEARCH_QUERIES_FIELD];
      if (!Array.isArray(listed)) return undefined;
      const queries = arrayIn(listed).filter((one) => typeof one === "string");
      const sources = arrayIn(value["groundingChunks"]).flatMap((one): readonly SearchSource[] => {
        const web = isObject(one) ? objectIn(one["web"]) : undefined;
        const url = stringIn(web?.["uri"]);
        return url === undefined ? [] : [{ url, title: stringIn(web?.["title"]) }];
      });
      return { kind: "call", call: { queries, sources } };
    },
  writeCall: ({ queries, sources }) => [
    {
      type: "native",
      wire: "gemini",
      value: {
        [SEARCH_QUERIES_FIELD]: queries,
        groundingChunks: sources.map(({ url: uri, title }) => ({ web: { uri, title } })),
      },
    },
  ],
};
