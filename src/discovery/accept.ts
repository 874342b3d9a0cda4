// Which form of the front page a client wants.

export type PageFormat = "html" | "json" | "text";

const PAGE_FORMATS: readonly (readonly [form: PageFormat, types: readonly string[]])[] = [
  ["html", ["text/html", "application/xhtml+xml"]],
  ["json", ["application/json"]],
  ["text", ["text/plain", "text/markdown"]],
];

/** The form that the client names and likes best; one that names none, as curl does, reads text. */
export function negotiateFormat(accept: string | null): PageFormat {
  const accepted = (accept ?? "").split(",").map(parseMediaRange);
  const best = PAGE_FORMATS.map(([form, types]) => ({
    form,
    weight: Math.max(
      0,
      ...accepted.filter((wish) => types.includes(wish.type)).map((wish) => wish.weight),
    ),
  })).toSorted((a, b) => b.weight - a.weight)[0];
  return best === undefined || best.weight === 0 ? "text" : best.form;
}

function parseMediaRange(text: string): { readonly type: string; readonly weight: number } {
  const [type = "", ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
  const quality = parameters.find((parameter) => parameter.startsWith("q="));
  const weight = quality === undefined ? 1 : Number(quality.slice(2));
  return { type, weight: Number.isFinite(weight) ? weight : 0 };
}
