import { describe, expect, test } from "bun:test";
import { tokensOf } from "./usage-harness.ts";

describe("usage of embeddings", () => {
  test.each([
    [{ model: "e", usage: { prompt_tokens: 8, total_tokens: 8 } }, 8],
    [{ usage: { total_tokens: 8 } }, 8],
    [{ meta: { billed_units: { input_tokens: 8 } } }, 8],
    [{ usage: { prompt_tokens: 0, total_tokens: 0 } }, 0],
  ])("reads %j", (body, input) => {
    expect(tokensOf("embeddings", body)).toEqual({ input, output: 0 });
  });
});
