import { expect, test } from "bun:test";
import { readmeExamples, runExample } from "../../../test/support/readme-examples.ts";

test.each(readmeExamples("http-client").map((example) => [example.title, example] as const))(
  "the README's example prints what it says: %s",
  (_, example) => {
    expect(example.expected).not.toEqual([]);
    expect(runExample("http-client", example)).toEqual(example.expected);
  },
);
