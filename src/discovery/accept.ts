// Content negotiation of pages that also exist as text for programs.

export type PageFormat = "html" | "json" | "markdown" | "text";

const FORMAT_TYPES: Readonly<Record<PageFormat, readonly string[]>> = {
  html: ["text/html", "application/xhtml+xml"],
  json: ["application/json"],
  markdown: ["text/markdown"],
  text: ["text/plain"],
};

/**
 * The offered format that `accept` names with the highest weight, the first one if several have it, and the last one if
 * it names none. The response needs `vary: accept`.
 */
export function negotiateFormat<const Offered extends PageFormat>(
  accept: string | null,
  offered: readonly [Offered, ...Offered[]],
): Offered {
  const ranges = (accept ?? "").split(",").map(parseMediaRange);
  const weightOf = (format: Offered): number =>
    Math.max(
      0,
      ...ranges
        .filter(({ type }) => FORMAT_TYPES[format].includes(type))
        .map(({ weight }) => weight),
    );
  const [best] = offered.toSorted((a, b) => weightOf(b) - weightOf(a));
  const fallback = offered.at(-1) ?? offered[0];
  return best === undefined || weightOf(best) === 0 ? fallback : best;
}

/** Whether a documentation page is wanted as Markdown: only if the client names it, which no browser does. */
export function prefersMarkdown(accept: string | null): boolean {
  return negotiateFormat(accept, ["markdown", "text", "html"]) !== "html";
}

function parseMediaRange(text: string): { readonly type: string; readonly weight: number } {
  const [type = "", ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
  const quality = parameters.find((parameter) => parameter.startsWith("q="));
  const weight = quality === undefined ? 1 : Number(quality.slice(2));
  return { type, weight: Number.isFinite(weight) ? weight : 0 };
}
