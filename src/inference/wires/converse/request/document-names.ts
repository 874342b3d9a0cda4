// Converse wants a name for every document, in a grammar of its own and once in a request.

const NAME_MAX = 200;
const FILE_EXTENSION = /\.(?:pdf|csv|docx?|xlsx?|html?|txt|md)$/i;

export type DocumentNames = (name: string | undefined) => string;

export function createDocumentNames(): DocumentNames {
  const taken = new Set<string>();
  return (name) => {
    const plain = sanitize(name ?? "");
    let written = plain;
    for (let turn = 2; taken.has(written); turn++) written = `${plain} (${turn})`;
    taken.add(written);
    return written;
  };
}

/** Letters, digits, hyphens, brackets, and single spaces. */
function sanitize(name: string): string {
  const kept = name
    .replace(FILE_EXTENSION, "")
    .replaceAll(/[^A-Za-z0-9()[\]-]+/g, " ")
    .trim()
    .slice(0, NAME_MAX - 8);
  return kept.trim() === "" ? "document" : kept.trim();
}
