import { expect, test } from "bun:test";
import { assert, array, constantFrom, integer, property, record } from "fast-check";
import { Fault } from "../../../src/base/fault.ts";
import {
  type CircuitBreaker,
  type CircuitCaller,
  createCircuitBreaker,
  OPEN_MS,
} from "../../../src/inference/routing/circuit-breaker.ts";
import { runs } from "../../support/full.ts";

const NOW = Date.UTC(2026, 10, 21, 12);
const CIRCUIT = "openai gateway gpt-5";
const FAULT = new Fault("upstream_error", "openai answered 500");

const paying = (accountId: string): CircuitCaller => ({ accountId, isShared: true });
const unfunded = (accountId: string): CircuitCaller => ({ accountId, isShared: false });

function fail(
  breaker: CircuitBreaker,
  caller: CircuitCaller,
  { times = 1, now = NOW, circuit = CIRCUIT } = {},
): void {
  for (let count = 0; count < times; count++)
    breaker.recordFailure(circuit, caller, { fault: FAULT, now });
}

function waitMs(
  breaker: CircuitBreaker,
  caller: CircuitCaller,
  now: number,
  circuit = CIRCUIT,
): number {
  return breaker.admit(circuit, caller, now)?.waitMs ?? 0;
}

test("evicts closed circuits before open ones", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 5; count++) fail(breaker, paying(`acct_${count}`));
  for (let count = 0; count < 25_000; count++)
    fail(breaker, paying("acct_own"), { circuit: `openai key_${count} gpt-5` });
  expect(breaker.isOpen(CIRCUIT, NOW + 1)).toBe(true);
  expect(waitMs(breaker, paying("acct_0"), NOW + 1)).toBeGreaterThan(0);
});

test("failures of one account open the circuit only for that account", () => {
  const breaker = createCircuitBreaker();
  fail(breaker, paying("acct_one"), { times: 20 });
  expect(waitMs(breaker, paying("acct_one"), NOW + 1)).toBeGreaterThan(0);
  expect(waitMs(breaker, paying("acct_other"), NOW + 1)).toBe(0);
  expect(breaker.isOpen(CIRCUIT, NOW + 1, "acct_one")).toBe(true);
  expect(breaker.isOpen(CIRCUIT, NOW + 1, "acct_other")).toBe(false);
  // One failure of another account does not block it, and its success closes the circuit.
  fail(breaker, paying("acct_other"), { now: NOW + 2 });
  expect(waitMs(breaker, paying("acct_other"), NOW + 3)).toBe(0);
  breaker.recordSuccess(CIRCUIT, paying("acct_other"));
  expect(waitMs(breaker, paying("acct_one"), NOW + 4)).toBe(0);
});

test("failures of two paying accounts open the circuit for all, and one probe is let through later", () => {
  const breaker = createCircuitBreaker();
  fail(breaker, paying("acct_one"), { times: 3 });
  fail(breaker, paying("acct_other"), { times: 2 });
  expect(waitMs(breaker, paying("acct_third"), NOW + 1)).toBe(OPEN_MS - 1);
  expect(waitMs(breaker, unfunded("acct_free"), NOW + 1)).toBe(OPEN_MS - 1);
  expect(breaker.admit(CIRCUIT, paying("acct_third"), NOW + 1)).toMatchObject({
    fault: FAULT,
    isOfOtherAccount: true,
  });
  expect(breaker.admit(CIRCUIT, paying("acct_one"), NOW + 1)).toMatchObject({
    isOfOtherAccount: false,
  });
  expect(waitMs(breaker, paying("acct_third"), NOW + OPEN_MS)).toBe(0);
  expect(waitMs(breaker, paying("acct_one"), NOW + OPEN_MS)).toBeGreaterThan(0);
  breaker.releaseProbe(CIRCUIT, paying("acct_third"));
  expect(waitMs(breaker, paying("acct_one"), NOW + OPEN_MS)).toBe(0);
});

test("a success of an unfunded account does not close what paying accounts opened, or make them begin anew", () => {
  const breaker = createCircuitBreaker();
  fail(breaker, paying("acct_one"), { times: 3 });
  fail(breaker, paying("acct_other"));
  breaker.recordSuccess(CIRCUIT, unfunded("acct_free"));
  fail(breaker, paying("acct_other"));
  expect(waitMs(breaker, paying("acct_third"), NOW + 1)).toBeGreaterThan(0);
  breaker.recordSuccess(CIRCUIT, unfunded("acct_free"));
  expect(waitMs(breaker, paying("acct_third"), NOW + 1)).toBeGreaterThan(0);
});

test("one account's failures never block others, even after a failure of another account", () => {
  const breaker = createCircuitBreaker();
  fail(breaker, paying("acct_one"), { times: 20 });
  fail(breaker, paying("acct_other"), { now: NOW + 1 });
  fail(breaker, paying("acct_one"), { times: 20, now: NOW + 2 });
  expect(waitMs(breaker, paying("acct_one"), NOW + 3)).toBeGreaterThan(0);
  expect(waitMs(breaker, paying("acct_other"), NOW + 3)).toBe(0);
  expect(waitMs(breaker, paying("acct_third"), NOW + 3)).toBe(0);
});

test("a failed probe blocks its account, and all accounts after a second one fails", () => {
  const breaker = createCircuitBreaker();
  fail(breaker, paying("acct_one"), { times: 3 });
  fail(breaker, paying("acct_other"), { times: 2 });
  const reopenAt = NOW + OPEN_MS;
  expect(waitMs(breaker, paying("acct_one"), reopenAt)).toBe(0);
  fail(breaker, paying("acct_one"), { now: reopenAt + 1 });
  expect(waitMs(breaker, paying("acct_one"), reopenAt + 2)).toBe(OPEN_MS - 1);
  expect(waitMs(breaker, paying("acct_third"), reopenAt + 2)).toBe(0);
  // Only one probe at a time.
  expect(waitMs(breaker, paying("acct_other"), reopenAt + 3)).toBeGreaterThan(0);
  fail(breaker, paying("acct_third"), { now: reopenAt + 3 });
  expect(waitMs(breaker, paying("acct_other"), reopenAt + 4)).toBeGreaterThan(0);
  expect(waitMs(breaker, paying("acct_other"), reopenAt + OPEN_MS + 1)).toBe(0);
  breaker.recordSuccess(CIRCUIT, paying("acct_other"));
  expect(waitMs(breaker, paying("acct_one"), reopenAt + OPEN_MS + 2)).toBe(0);
});

test("five failures to connect open the circuit for all, and a connection closes it", () => {
  const breaker = createCircuitBreaker();
  for (let count = 0; count < 5; count++)
    breaker.recordConnectFailure(CIRCUIT, { fault: FAULT, now: NOW });
  expect(breaker.listOpen(NOW + 1)).toEqual([CIRCUIT]);
  for (const caller of [paying("acct_one"), unfunded("acct_free")])
    expect(breaker.admit(CIRCUIT, caller, NOW + 1)).toEqual({
      waitMs: OPEN_MS - 1,
      fault: FAULT,
      isOfOtherAccount: false,
    });
  // One call tries to connect, and the others wait for its result.
  expect(waitMs(breaker, unfunded("acct_free"), NOW + OPEN_MS)).toBe(0);
  expect(waitMs(breaker, paying("acct_one"), NOW + OPEN_MS)).toBe(OPEN_MS);
  breaker.recordConnection(CIRCUIT);
  expect(waitMs(breaker, paying("acct_one"), NOW + OPEN_MS)).toBe(0);
  expect(breaker.listOpen(NOW + OPEN_MS)).toEqual([]);
});

const step = record({
  /** The first four accounts are unfunded. */
  account: integer({ min: 0, max: 6 }),
  circuit: constantFrom(CIRCUIT, "openai gateway gpt-5-mini"),
  result: constantFrom("success", "failure", "released", "pending"),
  afterMs: constantFrom(0, 1, 1_000, OPEN_MS),
});
const isUnfunded = (account: number): boolean => account < 4;

test("no calls of unfunded accounts change whether another account may call", () => {
  assert(
    property(array(step, { maxLength: 80 }), (steps) => {
      const all = createCircuitBreaker();
      const payingOnly = createCircuitBreaker();
      let now = NOW;
      for (const { account, circuit, result, afterMs } of steps) {
        now += afterMs;
        const caller = isUnfunded(account) ? unfunded(`a${account}`) : paying(`a${account}`);
        const breakers = isUnfunded(account) ? [all] : [all, payingOnly];
        const waits = breakers.map((breaker) => waitMs(breaker, caller, now, circuit));
        if (!isUnfunded(account)) expect(waits[0]).toBe(waits[1]);
        if (waits[0] !== 0) continue;
        for (const breaker of breakers) {
          breaker.recordConnection(circuit);
          if (result === "success") breaker.recordSuccess(circuit, caller);
          if (result === "failure") breaker.recordFailure(circuit, caller, { fault: FAULT, now });
          if (result === "released") breaker.releaseProbe(circuit, caller);
        }
        // A new account, funded or not, sees the same as well, and so does the order of the providers.
        for (const other of ["a6", "new"])
          expect(all.isOpen(circuit, now, other)).toBe(payingOnly.isOpen(circuit, now, other));
      }
    }),
    { numRuns: runs(500) },
  );
});
