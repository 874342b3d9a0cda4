// The stylesheet and the script of the documentation, the images of its pages, and the search index.

import { createHash } from "node:crypto";
import type { Asset } from "../../http/pages/assets.ts";
import docsCss from "./docs.css" with { type: "text" };
import {
  addCopyButtons,
  encodePath,
  formBody,
  moveInResults,
  noResults,
  prettyJson,
  rememberTabs,
  resultLink,
  sendTryIt,
  startSearch,
  startTryIt,
  tryItRequest,
} from "./docs-script.ts";
import { findEntries } from "./search.ts";

const HELPERS = [
  findEntries,
  noResults,
  resultLink,
  moveInResults,
  sendTryIt,
  tryItRequest,
  formBody,
  encodePath,
  prettyJson,
];
const STARTED = [addCopyButtons, rememberTabs, startSearch, startTryIt];

export const DOCS_STYLESHEET = asset("css", docsCss, "text/css; charset=utf-8");

/** The functions as their source text: the runtime has removed the types. */
export const DOCS_SCRIPT = asset(
  "js",
  [...HELPERS, ...STARTED.map((start) => `(${String(start)})();`)].map(String).join("\n"),
  "text/javascript; charset=utf-8",
);

/** An asset with the hash by which the Content-Security-Policy allows it. */
function asset(
  extension: string,
  body: string,
  contentType: string,
): Asset & { readonly integrity: string } {
  const hash = createHash("sha256").update(body).digest("hex").slice(0, 16);
  const integrity = `sha256-${createHash("sha256").update(body).digest("base64")}`;
  return { path: `/assets/${hash}.${extension}`, body, contentType, integrity };
}
