import { expect, test } from "bun:test";
import { readmeExamples, runExample } from "../../../test/support/readme-examples.ts";

test.each(readmeExamples("wires").map((example) => [example.title, example] as const))(
  "the README's example prints what it says: %s",
  (_, example) => {
    expect(example.expected).not.toEqual([]);
    expect(runExample("wires", example)).toEqual(example.expected);
  },
);
