// Fetches a web page for a model, through the same guard as images and documents: https, public addresses that are checked at
// each request, no cookies, few redirects, and bounds of size and time.

import type { FetchedPage, FetchError } from "@postern/wires";
import { SECOND_MS } from "../../base/time.ts";
import type { FetchFile } from "../media/fetch-file.ts";
import { htmlToPage } from "./page-text.ts";
import { cutBytes, isAllowedPage, type SearchSettings } from "./search-backends.ts";

export interface PageRequest extends Pick<SearchSettings, "allowedDomains" | "blockedDomains"> {
  readonly url: string;
  /** No token is shorter than a byte, so a page has at most so many bytes. */
  readonly maxTokens: number;
  readonly signal: AbortSignal;
  /** Called before each request, also that of a redirect. False ends the fetch. */
  readonly mayRequest: () => boolean;
}

export type FetchPage = (
  request: PageRequest,
) => Promise<{ readonly page: FetchedPage } | { readonly error: FetchError }>;

const TIMEOUT_MS = 15 * SECOND_MS;

export function createFetchPage(fetchFile: FetchFile, now: () => number): FetchPage {
  return async (request) => {
    const [url = ""] = request.url.replace(/^http:/, "https:").split("#", 1);
    if (!isAllowedPage(url, request)) return { error: "url_not_allowed" };
    let refused: FetchError | undefined;
    const file = await fetchFile({
      url,
      kind: "document",
      signal: AbortSignal.any([request.signal, AbortSignal.timeout(TIMEOUT_MS)]),
      onRequest: (next) => {
        if (!isAllowedPage(next, request)) refused = "url_not_allowed";
        else if (!request.mayRequest()) refused = "unavailable";
        if (refused !== undefined) throw new Error(refused);
      },
      onBytes: () => {},
    });
    if (refused !== undefined) return { error: refused };
    if ("problem" in file)
      return { error: UNREADABLE.test(file.problem) ? UNSUPPORTED : "url_not_accessible" };
    if (!file.mediaType.startsWith("text/")) return { error: UNSUPPORTED };
    const text = Buffer.from(file.data, "base64").toString();
    const page = file.mediaType === "text/html" ? htmlToPage(text) : { text };
    const fetchedAt = new Date(now()).toISOString();
    return { page: { ...page, text: cutBytes(page.text, request.maxTokens), fetchedAt } };
  };
}

const UNSUPPORTED = "unsupported_content_type";
const UNREADABLE = /is not an image|is larger than/;
