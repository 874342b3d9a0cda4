// Anthropic's fetching of pages that the conversation names.

import type { NativePart } from "../canonical/canonical-parts.ts";
import type {
  FetchCall,
  FetchedPage,
  FetchRequestForm,
} from "../canonical/tools/canonical-web-fetch.ts";
import type { Setting } from "../canonical/tools/server-tool.ts";
import {
  type JsonObject,
  objectIn,
  optionalInteger,
  stringIn,
  unknownFields,
} from "../json-fields.ts";
import { readDomains } from "../search-settings.ts";
import { otherToolFields, takeNativeTool } from "../server-tool-fields.ts";
import { FOREIGN_USE, nativeBlock } from "./messages-server-calls.ts";

const FIELDS: ReadonlySet<string> = new Set(
  "type name allowed_domains blocked_domains max_uses max_content_tokens".split(" "),
);
const LIMIT_MAX = 1_000_000_000;
const NAME = "web_fetch";
const RESULT = "web_fetch_tool_result";

export const messagesFetch: FetchRequestForm = {
  read(request) {
    const taken = takeNativeTool(request, "messages", /^web_fetch_\d{8}$/);
    if (taken === undefined) return undefined;
    const { value, path, isRequired, rest } = taken;
    return {
      tool: {
        path,
        isRequired,
        allowedDomains: readDomains(value["allowed_domains"], `${path}.allowed_domains`),
        blockedDomains: readDomains(value["blocked_domains"], `${path}.blocked_domains`),
        maxUses: readLimit(value["max_uses"], `${path}.max_uses`),
        maxContentTokens: readLimit(value["max_content_tokens"], `${path}.max_content_tokens`),
        losses: otherToolFields(unknownFields(value, FIELDS), path, "messages"),
      },
      rest,
    };
  },
};

function readLimit(value: unknown, path: string): Setting<number> | undefined {
  const limit = optionalInteger(value, path, 1, LIMIT_MAX);
  return limit === undefined ? undefined : { value: limit, path };
}

export function writeFetchCall({ url, page, error }: FetchCall, id: string): readonly NativePart[] {
  const caller = { type: "direct" };
  const use = FOREIGN_USE + id;
  const content =
    page === undefined
      ? { type: "web_fetch_tool_result_error", error_code: error ?? "unavailable" }
      : {
          type: "web_fetch_result",
          url,
          content: {
            type: "document",
            source: { type: "text", media_type: "text/plain", data: page.text },
            title: page.title ?? null,
            citations: null,
          },
          retrieved_at: page.fetchedAt ?? null,
        };
  return [
    nativeBlock({ type: "server_tool_use", id: use, name: NAME, input: { url }, caller }),
    nativeBlock({ type: RESULT, tool_use_id: use, content, caller }),
  ];
}

/** The page of a result block, which is in the block as it is. */
export function fetchedPageIn({ type, content }: JsonObject): FetchedPage | undefined {
  const document = type === RESULT ? objectIn(objectIn(content)?.["content"]) : undefined;
  const text = stringIn(objectIn(document?.["source"])?.["data"]);
  return text === undefined ? undefined : { text, title: stringIn(document?.["title"]) };
}
