// Converse requires a document name that is unique in the request and has only certain characters.

const NAME_MAX = 200;
const FILE_EXTENSION = /\.(?:pdf|csv|docx?|xlsx?|html?|txt|md)$/i;

export type DocumentNames = (name: string | undefined) => string;

export function createDocumentNames(): DocumentNames {
  const used = new Set<string>();
  // Otherwise, n documents of one name would take n² steps.
  const nextSuffixes = new Map<string, number>();
  return (name) => {
    const base = sanitize(name ?? "");
    let unique = base;
    if (used.has(base)) {
      let suffix = nextSuffixes.get(base) ?? 2;
      do unique = `${base} (${suffix++})`;
      while (used.has(unique));
      nextSuffixes.set(base, suffix);
    }
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
