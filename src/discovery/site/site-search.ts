// Full-text search over the pages. The browser runs the source text of the same function, so it must not refer to anything
// outside of it.

export interface SearchEntry {
  readonly url: string;
  readonly title: string;
  readonly section: string;
  readonly text: string;
}

/** The entries that contain all words, best first. A word in the title counts more than one in the text. */
export function findEntries(entries: readonly SearchEntry[], query: string): SearchEntry[] {
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "")
    .slice(0, 10);
  if (words.length === 0) return [];
  const scoreOf = (entry: SearchEntry): number => {
    const title = entry.title.toLowerCase();
    const text = `${entry.section} ${entry.url} ${entry.text}`.toLowerCase();
    let score = title === query.toLowerCase().trim() ? 100 : 0;
    for (const word of words) {
      const inTitle = title.indexOf(word);
      const inText = text.indexOf(word);
      if (inTitle === -1 && inText === -1) return 0;
      if (inTitle !== -1) score += inTitle === 0 ? 30 : 20;
      if (inText !== -1) score += inText < 200 ? 5 : 2;
    }
    return score;
  };
  return entries
    .map((entry) => ({ entry, score: scoreOf(entry) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ entry }) => entry);
}
