import { expect, test } from "bun:test";
import { createCircuitBreaker } from "../../../src/inference/routing/circuit-breaker.ts";

const NOW = Date.UTC(2026, 10, 21, 12);

test("an open circuit stays open however many others come and go", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 5; count++)
    breaker.recordFailure("openai gateway gpt-5", `acct_${count}`, NOW);
  for (let count = 0; count < 25_000; count++)
    breaker.recordFailure(`openai key_${count} gpt-5`, "acct_own", NOW);
  expect(breaker.isOpen("openai gateway gpt-5", NOW + 1)).toBe(true);
  expect(breaker.admit("openai gateway gpt-5", "acct_0", NOW + 1)).toBeGreaterThan(0);
});

const CIRCUIT = "openai gateway gpt-5";

test("what one account alone provokes opens the circuit for that account, and for no other", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 20; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW);
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 1)).toBeGreaterThan(0);
  expect(breaker.admit(CIRCUIT, "acct_other", NOW + 1)).toBe(0);
  expect(breaker.isOpen(CIRCUIT, NOW + 1, "acct_one")).toBe(true);
  expect(breaker.isOpen(CIRCUIT, NOW + 1, "acct_other")).toBe(false);
  // Another's stumble leaves room for its second try, and what answers that one closes the circuit.
  breaker.recordFailure(CIRCUIT, "acct_other", NOW + 2);
  expect(breaker.admit(CIRCUIT, "acct_other", NOW + 3)).toBe(0);
  breaker.recordSuccess(CIRCUIT);
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 4)).toBe(0);
});

test("what two accounts run into opens the circuit for all, and one call tries it again", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 3; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW);
  for (let count = 0; count < 2; count++) breaker.recordFailure(CIRCUIT, "acct_other", NOW);
  expect(breaker.admit(CIRCUIT, "acct_third", NOW + 1)).toBe(29_999);
  expect(breaker.admit(CIRCUIT, "acct_third", NOW + 30_000)).toBe(0);
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 30_000)).toBeGreaterThan(0);
  breaker.releaseProbe(CIRCUIT, "acct_third");
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 30_000)).toBe(0);
});

test("an account that goes on provoking failures keeps nobody else away, whatever another ran into before", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 20; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW);
  breaker.recordFailure(CIRCUIT, "acct_other", NOW + 1);
  for (let count = 0; count < 20; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW + 2);
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 3)).toBeGreaterThan(0);
  expect(breaker.admit(CIRCUIT, "acct_other", NOW + 3)).toBe(0);
  expect(breaker.admit(CIRCUIT, "acct_third", NOW + 3)).toBe(0);
});

test("a failed try of an open circuit keeps away who made it, and all once another's has failed as well", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 3; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW);
  for (let count = 0; count < 2; count++) breaker.recordFailure(CIRCUIT, "acct_other", NOW);
  const over = NOW + 30_000;
  expect(breaker.admit(CIRCUIT, "acct_one", over)).toBe(0);
  breaker.recordFailure(CIRCUIT, "acct_one", over + 1);
  expect(breaker.admit(CIRCUIT, "acct_one", over + 2)).toBe(29_999);
  expect(breaker.admit(CIRCUIT, "acct_third", over + 2)).toBe(0);
  // One tries at a time.
  expect(breaker.admit(CIRCUIT, "acct_other", over + 3)).toBeGreaterThan(0);
  breaker.recordFailure(CIRCUIT, "acct_third", over + 3);
  expect(breaker.admit(CIRCUIT, "acct_other", over + 4)).toBeGreaterThan(0);
  expect(breaker.admit(CIRCUIT, "acct_other", over + 30_001)).toBe(0);
  breaker.recordSuccess(CIRCUIT);
  expect(breaker.admit(CIRCUIT, "acct_one", over + 30_002)).toBe(0);
});
