// The text of an HTML page for a model: without scripts, styles and markup, with line breaks, links and the title.

import type { FetchedPage } from "@postern/wires";

const HIDDEN = "script, style, noscript, template, svg, iframe";
const BLOCKS =
  "p, div, section, article, header, footer, main, aside, nav, ul, ol, li, table, tr, pre, blockquote, h1, h2, h3, h4, h5, h6";
const TITLE_MAX_LENGTH = 300;

/** Parsing blocks the event loop, so only the beginning of a long page is read. */
const HTML_MAX_LENGTH = 1_000_000;
const NODES_MAX = 50_000;

export function htmlToPage(html: string): FetchedPage {
  const pieces: string[] = [];
  let title = "";
  let hiddenDepth = 0;
  let titleDepth = 0;
  let nodes = 0;
  const countNode = (): void => {
    nodes += 1;
    if (nodes > NODES_MAX) throw new Error("the page is too long");
  };
  const parser = new HTMLRewriter()
    .on(HIDDEN, {
      element(element) {
        countNode();
        if (!element.canHaveContent) return;
        hiddenDepth += 1;
        element.onEndTag(() => void (hiddenDepth -= 1));
      },
    })
    .on("title", {
      element(element) {
        if (!element.canHaveContent) return;
        titleDepth += 1;
        element.onEndTag(() => void (titleDepth -= 1));
      },
    })
    .on(BLOCKS, {
      element(element) {
        countNode();
        pieces.push("\n");
        element.onEndTag(() => void pieces.push("\n"));
      },
    })
    .on("br, hr", {
      element() {
        countNode();
        pieces.push("\n");
      },
    })
    .on("td, th", {
      element() {
        countNode();
        pieces.push(" ");
      },
    })
    .on("a[href^='http']", {
      element(element) {
        if (!element.canHaveContent) return;
        const url = element.getAttribute("href") ?? "";
        element.onEndTag(() => void pieces.push(` (${url})`));
      },
    })
    .onDocument({
      text({ text }) {
        countNode();
        // An inline SVG has a title of its own.
        if (hiddenDepth > 0) return;
        if (titleDepth > 0) title += text;
        else pieces.push(text);
      },
    });
  try {
    parser.transform(html.slice(0, HTML_MAX_LENGTH));
  } catch (error) {
    // What was read before the limit is the page.
    if (nodes <= NODES_MAX) throw error;
  }
  const text = tidied(pieces.join(""));
  const heading = tidied(title).slice(0, TITLE_MAX_LENGTH).toWellFormed();
  return heading === "" ? { text } : { text, title: heading };
}

function tidied(text: string): string {
  return withoutEntities(text)
    .split("\n")
    .map((line) => line.replaceAll(/\s+/g, " ").trim())
    .filter((line) => line !== "")
    .join("\n");
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: " ",
  ndash: "–",
  mdash: "—",
  hellip: "…",
  copy: "©",
  euro: "€",
};
const CODE_POINT_MAX = 0x10_ff_ff;

function withoutEntities(text: string): string {
  return text.replaceAll(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,6}));/gi, (whole, ...found) => {
    const [decimal, hex, name] = found.map((one: unknown) =>
      typeof one === "string" ? one : undefined,
    );
    if (name !== undefined) return ENTITIES[name.toLowerCase()] ?? whole;
    const code = decimal === undefined ? parseInt(hex ?? "", 16) : Number(decimal);
    return code <= CODE_POINT_MAX ? String.fromCodePoint(code) : whole;
  });
}
