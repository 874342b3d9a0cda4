// Converse requires a document name that is unique in the request and has only certain characters.

const NAME_MAX = 200;
const FILE_EXTENSION = /\.(?:pdf|csv|docx?|xlsx?|html?|txt|md)$/i;

export type DocumentNames = (name: string | undefined) => string;

export function createDocumentNames(): DocumentNames {
  const used = new Set<string>();
  return (name) => {
    const base = sanitize(name ?? "");
    let unique = base;
    for (let suffix = 2; used.has(unique); suffix++) unique = `${base} (${suffix})`;
    used.add(unique);
    return unique;
  };
}

/** Keeps letters, digits, hyphens, brackets and single spaces. */
function sanitize(name: string): string {
  const kept = name
    .replace(FILE_EXTENSION, "")
    .replaceAll(/[^A-Za-z0-9()[\]-]+/g, " ")
    .trim()
    .slice(0, NAME_MAX - 8);
  return kept.trim() === "" ? "document" : kept.trim();
}
