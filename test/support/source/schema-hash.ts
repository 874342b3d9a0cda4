// Names template databases: the server may be reused after a change of the schema.

import { createHash } from "node:crypto";
import { filesUnder } from "./source-files.ts";

export function schemaHash(): string {
  const texts = filesUnder("src/store", /\.(ts|sql)$/).map(({ text }) => text);
  return createHash("sha256").update(texts.join("\n")).digest("hex").slice(0, 16);
}
