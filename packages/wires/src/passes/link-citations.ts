// Models that have no citations of their own cite a page as a Markdown link. The link becomes a citation of the canonical form.

import type { Citation } from "../canonical/canonical-parts.ts";
import type { SearchSource } from "../canonical/tools/canonical-web-search.ts";

const LINK = /\[([^[\]\n]{0,300})\]\((https?:\/\/[^\s()<>]{1,2000})\)/g;
/** A longer opening is not a link. */
const OPENING_MAX_LENGTH = 2_400;
const CITED_TEXT_MAX_LENGTH = 150;

/** Finds the citations of a text part that arrives in pieces. Only pages that a search has returned are cited. */
export function createLinkFinder(
  sources: ReadonlyMap<string, SearchSource>,
): (text: string) => readonly Citation[] {
  let tail = "";
  let tailStart = 0;
  return (text) => {
    tail += text;
    const found: Citation[] = [];
    let end = 0;
    for (const match of tail.matchAll(LINK)) {
      const [link, title = "", url = ""] = match;
      end = match.index + link.length;
      const source = sources.get(url);
      if (source === undefined) continue;
      found.push({
        url,
        title: source.title ?? title,
        citedText: source.content?.slice(0, CITED_TEXT_MAX_LENGTH),
        start: tailStart + match.index,
        end: tailStart + end,
      });
    }
    const open = tail.lastIndexOf("[");
    const kept = open < end || tail.length - open > OPENING_MAX_LENGTH ? tail.length : open;
    tail = tail.slice(kept);
    tailStart += kept;
    return found;
  };
}
