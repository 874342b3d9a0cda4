// Grounding with Google Search: a tool without settings, and metadata of the reply.
import { arrayIn, isObject, objectIn, stringIn } from "../../../base/json.ts";
import { addFieldLoss, addLoss } from "../../canonical/loss.ts";
import type {
  SearchReplyForm,
  SearchRequestForm,
  SearchSource,
} from "../../canonical/web-search.ts";
import { addSearchHintLoss, addSearchLoss, withTool } from "../search-settings.ts";
import { isThirdGeneration } from "./request/model-generation.ts";

export const geminiSearch: SearchRequestForm = {
  write(request, search, target, losses) {
    const { allowedDomains, blockedDomains, isRequired } = search;
    for (const one of [search.location, search.contextSize, search.maxUses])
      addSearchHintLoss(losses, one);
    for (const one of [allowedDomains, blockedDomains])
      addSearchLoss(losses, one, "This provider cannot restrict a search to domains.");
    if (isRequired === true)
      addFieldLoss(losses, request, "toolChoice", "This provider cannot require a search.");
    // Gemini 3 can combine them if the client sends the provider's own parts back, which other APIs do not have.
    if (request.tools !== undefined && request.tools.length > 0) {
      addLoss(losses, search.path, "This provider does not combine web search with other tools.");
      return request;
    }
    const isJson = request.output !== undefined && request.output.type !== "text";
    if (isJson && !isThirdGeneration(target)) {
      addLoss(losses, search.path, "This model does not combine web search with JSON output.");
      return request;
    }
    return withTool(request, "gemini", "google_search", { googleSearch: {} });
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
  writeCall: () => [],
};
