// Gemini's URL context: it fetches pages that the conversation names. The reply lists them, but has no calls.

import type { NativePart } from "../canonical/canonical-parts.ts";
import type { FetchCall, FetchRequestForm } from "../canonical/tools/canonical-web-fetch.ts";
import { addSettingHintLoss, addSettingLoss } from "../server-tool-fields.ts";
import { findServerTool, withServerTool } from "./gemini-server-tools.ts";

export const geminiFetch: FetchRequestForm = {
  read: (request) => findServerTool(request, /^urlContext$/),
  write(request, tool, target, losses) {
    for (const one of [tool.allowedDomains, tool.blockedDomains])
      addSettingLoss(losses, one, "This provider cannot restrict fetching to domains.");
    for (const one of [tool.maxUses, tool.maxContentTokens]) addSettingHintLoss(losses, one);
    return withServerTool(request, { tool, title: "fetching of pages", target }, losses, {
      urlContext: {},
    });
  },
};

export function writeUrlContext({ url, page }: FetchCall): readonly NativePart[] {
  const status = page === undefined ? "ERROR" : "SUCCESS";
  const fetched = { retrievedUrl: url, urlRetrievalStatus: `URL_RETRIEVAL_STATUS_${status}` };
  const urlContextMetadata = { urlMetadata: [fetched] };
  return [{ type: "native", wire: "gemini", value: { urlContextMetadata } }];
}
