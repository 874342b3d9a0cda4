// Texts that were written to have many tokens. Their counts are those of the tokenizer o200k_base (gpt-tokenizer 3), taken once.

import { describe, expect, test } from "bun:test";
import { estimateTextTokens } from "../../../src/inference/metering/text-estimate.ts";
import { expectLinearCpuTime } from "../../support/cpu-time.ts";
import { HOSTILE_TEXTS, randomText } from "./hostile-texts.ts";

describe("a text of random characters counts at least its tokens", () => {
  for (const [name, characters, tokens] of HOSTILE_TEXTS)
    test(`${name}: ${tokens} tokens`, () => {
      const content = randomText(characters);
      const estimated = Math.ceil(estimateTextTokens(content));
      expect(estimated).toBeGreaterThanOrEqual(tokens);
      expect(estimated).toBeLessThanOrEqual(Buffer.byteLength(content));
    });
});

test("a single pass over a text takes linear time", () => {
  expectLinearCpuTime((length) => estimateTextTokens("qzxj ".repeat(length / 5)), 4_000_000);
});
