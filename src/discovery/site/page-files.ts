// A Bun macro: `with { type: "macro" }` calls the function when the source is loaded or bundled, so that the texts are in the
// executable and a new page is one file.

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";

const FOLDER = path.join(import.meta.dir, "../../../docs/site");
const CHANGELOG = "../../CHANGELOG.md";

/** The text of each page by its file, relative to `docs/site`. */
export function readPageFiles(): Record<string, string> {
  const files = readdirSync(FOLDER, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .map((file) => file.replaceAll("\\", "/"));
  return Object.fromEntries(
    [...files, CHANGELOG].map((file) => [file, readFileSync(path.join(FOLDER, file), "utf8")]),
  );
}
