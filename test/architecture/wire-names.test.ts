// What a wire knows is in packages/wires: other code asks for a trait of a wire and does not compare its name.

import { expect, test } from "bun:test";
import { filesUnder } from "../support/source/source-files.ts";

const NAMES = "chat|responses|messages|gemini|converse|count_tokens|embeddings";
const BRANCH = new RegExp(
  String.raw`(?:[!=]==|case|includes\(|has\() ?"(?:${NAMES})"|"(?:${NAMES})" [!=]==`,
  "g",
);

/** The branches that are left, by file. The list only gets shorter. */
const BRANCHES_LEFT: Readonly<Record<string, number>> = {
  "src/inference/lifecycle/enforce-key-policy.ts": 2,
  "src/inference/lifecycle/route-call.ts": 1,
  "src/inference/metering/cost-estimate.ts": 5,
  "src/inference/translate/abilities.ts": 2,
};

test("inference branches on the name of a wire only where the list says so", () => {
  const found = filesUnder("src/inference").flatMap(({ path: file, text }) => {
    const count = [...text.matchAll(BRANCH)].length;
    return count === 0 ? [] : [[file, count] as const];
  });
  expect(Object.fromEntries(found)).toEqual(BRANCHES_LEFT);
});
