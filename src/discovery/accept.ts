// Content negotiation of the home page and the documentation.

export type PageFormat = "html" | "json" | "text";

const PAGE_FORMATS: readonly (readonly [format: PageFormat, types: readonly string[]])[] = [
  ["html", ["text/html", "application/xhtml+xml"]],
  ["json", ["application/json"]],
  ["text", ["text/plain", "text/markdown"]],
];

/** The accepted format with the highest weight; text if the client names none of them, like curl. */
export function negotiateFormat(accept: string | null): PageFormat {
  const ranges = (accept ?? "").split(",").map(parseMediaRange);
  const best = PAGE_FORMATS.map(([format, types]) => ({
    format,
    weight: Math.max(
      0,
      ...ranges.filter(({ type }) => types.includes(type)).map(({ weight }) => weight),
    ),
  })).toSorted((a, b) => b.weight - a.weight)[0];
  return best === undefined || best.weight === 0 ? "text" : best.format;
}

/** Whether a documentation page is wanted as Markdown: only if the client names it and prefers it to HTML. */
export function prefersMarkdown(accept: string | null): boolean {
  return /text\/(markdown|plain)/i.test(accept ?? "") && negotiateFormat(accept) === "text";
}

function parseMediaRange(text: string): { readonly type: string; readonly weight: number } {
  const [type = "", ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
  const quality = parameters.find((parameter) => parameter.startsWith("q="));
  const weight = quality === undefined ? 1 : Number(quality.slice(2));
  return { type, weight: Number.isFinite(weight) ? weight : 0 };
}
