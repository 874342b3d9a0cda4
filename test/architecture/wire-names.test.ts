// What a wire knows is in packages/wires: other code asks for a trait of a wire and does not compare its name.

import { expect, test } from "bun:test";
import { filesUnder } from "../support/source/source-files.ts";

const NAMES = "chat|responses|messages|gemini|converse|count_tokens|embeddings";
const BRANCH = new RegExp(
  String.raw`(?:[!=]==|case|includes\(|has\() ?"(?:${NAMES})"|"(?:${NAMES})" [!=]==`,
  "g",
);

test.each(["inference", "responses"])("%s does not branch on the name of a wire", (folder) => {
  const found = filesUnder(`src/${folder}`).flatMap(({ path: file, text }) =>
    [...text.matchAll(BRANCH)].map(([branch]) => `${file}: ${branch}`),
  );
  expect(found).toEqual([]);
});
