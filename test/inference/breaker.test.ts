import { expect, test } from "bun:test";
import { createBreaker } from "../../src/inference/breaker.ts";

const NOW = Date.UTC(2026, 10, 21, 12);

test("an open circuit stays open however many others come and go", () => {
  const breaker = createBreaker();
  for (let count = 0; count < 5; count++) breaker.failed("openai gateway gpt-5", NOW);
  for (let count = 0; count < 25_000; count++) breaker.failed(`openai key_${count} gpt-5`, NOW);
  expect(breaker.isOpen("openai gateway gpt-5", NOW + 1)).toBe(true);
  expect(breaker.enter("openai gateway gpt-5", NOW + 1)).toBeGreaterThan(0);
});
