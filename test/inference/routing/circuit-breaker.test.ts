import { expect, test } from "bun:test";
import { createCircuitBreaker } from "../../../src/inference/routing/circuit-breaker.ts";

const NOW = Date.UTC(2026, 10, 21, 12);

test("evicts closed circuits before open ones", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 5; count++)
    breaker.recordFailure("openai gateway gpt-5", `acct_${count}`, NOW);
  for (let count = 0; count < 25_000; count++)
    breaker.recordFailure(`openai key_${count} gpt-5`, "acct_own", NOW);
  expect(breaker.isOpen("openai gateway gpt-5", NOW + 1)).toBe(true);
  expect(breaker.admit("openai gateway gpt-5", "acct_0", NOW + 1)).toBeGreaterThan(0);
});

const CIRCUIT = "openai gateway gpt-5";

test("failures of one account open the circuit only for that account", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 20; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW);
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 1)).toBeGreaterThan(0);
  expect(breaker.admit(CIRCUIT, "acct_other", NOW + 1)).toBe(0);
  expect(breaker.isOpen(CIRCUIT, NOW + 1, "acct_one")).toBe(true);
  expect(breaker.isOpen(CIRCUIT, NOW + 1, "acct_other")).toBe(false);
  // One failure of another account does not block it, and its success closes the circuit.
  breaker.recordFailure(CIRCUIT, "acct_other", NOW + 2);
  expect(breaker.admit(CIRCUIT, "acct_other", NOW + 3)).toBe(0);
  breaker.recordSuccess(CIRCUIT);
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 4)).toBe(0);
});

test("failures of two accounts open the circuit for all, and one probe is let through later", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 3; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW);
  for (let count = 0; count < 2; count++) breaker.recordFailure(CIRCUIT, "acct_other", NOW);
  expect(breaker.admit(CIRCUIT, "acct_third", NOW + 1)).toBe(29_999);
  expect(breaker.admit(CIRCUIT, "acct_third", NOW + 30_000)).toBe(0);
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 30_000)).toBeGreaterThan(0);
  breaker.releaseProbe(CIRCUIT, "acct_third");
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 30_000)).toBe(0);
});

test("one account's failures never block others, even after a failure of another account", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 20; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW);
  breaker.recordFailure(CIRCUIT, "acct_other", NOW + 1);
  for (let count = 0; count < 20; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW + 2);
  expect(breaker.admit(CIRCUIT, "acct_one", NOW + 3)).toBeGreaterThan(0);
  expect(breaker.admit(CIRCUIT, "acct_other", NOW + 3)).toBe(0);
  expect(breaker.admit(CIRCUIT, "acct_third", NOW + 3)).toBe(0);
});

test("a failed probe blocks its account, and all accounts after a second one fails", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 3; count++) breaker.recordFailure(CIRCUIT, "acct_one", NOW);
  for (let count = 0; count < 2; count++) breaker.recordFailure(CIRCUIT, "acct_other", NOW);
  const reopenAt = NOW + 30_000;
  expect(breaker.admit(CIRCUIT, "acct_one", reopenAt)).toBe(0);
  breaker.recordFailure(CIRCUIT, "acct_one", reopenAt + 1);
  expect(breaker.admit(CIRCUIT, "acct_one", reopenAt + 2)).toBe(29_999);
  expect(breaker.admit(CIRCUIT, "acct_third", reopenAt + 2)).toBe(0);
  // Only one probe at a time.
  expect(breaker.admit(CIRCUIT, "acct_other", reopenAt + 3)).toBeGreaterThan(0);
  breaker.recordFailure(CIRCUIT, "acct_third", reopenAt + 3);
  expect(breaker.admit(CIRCUIT, "acct_other", reopenAt + 4)).toBeGreaterThan(0);
  expect(breaker.admit(CIRCUIT, "acct_other", reopenAt + 30_001)).toBe(0);
  breaker.recordSuccess(CIRCUIT);
  expect(breaker.admit(CIRCUIT, "acct_one", reopenAt + 30_002)).toBe(0);
});
