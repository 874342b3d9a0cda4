// The guard against overload: what it refuses while the event loop is delayed, and how it shares what can be served.

import { describe, expect, test } from "bun:test";
import { Fault } from "../../src/base/fault.ts";
import { createOverloadGuard, type OverloadGuard } from "../../src/http/guards/overload.ts";
import { bodyOf, postCall } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

/** An event loop that serves a number of calls per millisecond, in simulated time. Each iteration takes all that has arrived. */
function simulateProcess(capacity: number) {
  let perMs = capacity;
  let now = 0;
  let lastMs = 1;
  let longestMs = 0;
  let timers: { at: number; sample: () => void }[] = [];
  const guard = createOverloadGuard({
    now: () => now,
    schedule: (sample, ms) => timers.push({ at: now + ms, sample }),
  });
  const runIteration = (perMsByAccount: Readonly<Record<string, number>>, sums: Sums): number => {
    let admitted = 0;
    for (const [account, perMsOfAccount] of Object.entries(perMsByAccount))
      for (let index = 0; index < perMsOfAccount * lastMs; index++) {
        sums.offered[account] = (sums.offered[account] ?? 0) + 1;
        if (!isAdmitted(guard, account)) continue;
        sums.admitted[account] = (sums.admitted[account] ?? 0) + 1;
        admitted += 1;
      }
    lastMs = Math.max(1, Math.ceil(admitted / perMs));
    longestMs = Math.max(longestMs, lastMs);
    for (let index = 0; index < admitted; index++) guard.finish();
    return lastMs;
  };
  /** Runs with so many arrivals per millisecond of each account. */
  const run = (ms: number, perMsByAccount: Readonly<Record<string, number>>): Sums => {
    const sums: Sums = { offered: {}, admitted: {}, longestMs: 0 };
    longestMs = 0;
    const end = now + ms;
    while (now < end) {
      now += runIteration(perMsByAccount, sums);
      const due = timers.filter(({ at }) => at <= now);
      timers = timers.filter(({ at }) => at > now);
      for (const { sample } of due) sample();
    }
    return { ...sums, longestMs };
  };
  const slowDown = (factor: number): void => {
    perMs /= factor;
  };
  return { run, slowDown };
}

interface Sums {
  readonly offered: Record<string, number>;
  readonly admitted: Record<string, number>;
  readonly longestMs: number;
}

function isAdmitted(guard: OverloadGuard, account: string): boolean {
  try {
    guard.admit(account);
    return true;
  } catch (error) {
    if (error instanceof Fault && error.code === "overloaded") return false;
    throw error;
  }
}

describe("the overload guard", () => {
  test("admits everything below capacity", () => {
    const { run } = simulateProcess(10);
    const { offered, admitted } = run(3_000, { acct_a: 9 });
    expect(admitted).toEqual(offered);
  });

  test("admits about what can be served at four times capacity, and the delay stays bounded", () => {
    const { run } = simulateProcess(10);
    run(2_000, { acct_a: 40 });
    const { admitted, longestMs } = run(5_000, { acct_a: 40 });
    expect(admitted["acct_a"]).toBeGreaterThan(40_000);
    expect(longestMs).toBeLessThan(150);
  });

  test("admits all calls of an account with few while another one has too many", () => {
    const { run } = simulateProcess(10);
    run(2_000, { acct_a: 40, acct_b: 1 });
    const { offered, admitted } = run(5_000, { acct_a: 40, acct_b: 1 });
    expect(admitted["acct_b"]).toBeGreaterThan(0.99 * (offered["acct_b"] ?? 0));
    expect(admitted["acct_a"]).toBeGreaterThan(35_000);
  });

  test("shares equally between accounts that all have too many", () => {
    const { run } = simulateProcess(12);
    const load = { acct_a: 40, acct_b: 20, acct_c: 40 };
    run(2_000, load);
    const { admitted } = run(5_000, load);
    const [a = 0, b = 0, c = 0] = ["acct_a", "acct_b", "acct_c"].map((name) => admitted[name]);
    expect(Math.min(a, b, c)).toBeGreaterThan(13_000);
    expect(Math.max(a, b, c) / Math.min(a, b, c)).toBeLessThan(1.15);
  });

  test("admits everything again within a second after the overload", () => {
    const { run } = simulateProcess(10);
    run(3_000, { acct_a: 40 });
    run(1_000, { acct_a: 5 });
    const { offered, admitted } = run(1_000, { acct_a: 5 });
    expect(admitted).toEqual(offered);
  });

  test("serves nearly everything within two seconds after the process was slow for one", () => {
    const process = simulateProcess(10);
    process.run(1_000, { acct_a: 9 });
    process.slowDown(10);
    process.run(1_000, { acct_a: 9 });
    process.slowDown(1 / 10);
    process.run(2_000, { acct_a: 9 });
    const { offered, admitted } = process.run(1_000, { acct_a: 9 });
    expect(admitted["acct_a"]).toBeGreaterThan(0.95 * (offered["acct_a"] ?? 0));
  });

  test("refuses nothing while other processes delay a loop with few calls", () => {
    const { run } = simulateProcess(0.02);
    const { offered, admitted } = run(3_000, { acct_a: 0.01, acct_b: 0.01 });
    expect(admitted).toEqual(offered);
  });

  test("refuses nothing after one long pause of the loop", () => {
    expect(admitBetween([10, 500, 10, 10], 200)).toBe("all");
  });

  test("ends a long turn of the loop by refusing the account with most calls, and not one with few", () => {
    let now = 0;
    let timer = (): void => undefined;
    const guard = createOverloadGuard({
      now: () => now,
      schedule: (sample) => {
        timer = sample;
      },
    });
    const admitEach = (ms: number, calls: number): number => {
      let admitted = 0;
      for (let index = 0; index < calls; index++) {
        now += ms;
        if (isAdmitted(guard, "acct_a")) admitted += 1;
      }
      return admitted;
    };
    expect(admitEach(0.9, 1_000)).toBeLessThan(560);
    expect(isAdmitted(guard, "acct_b")).toBe(true);
    timer();
    expect(admitEach(0.1, 10)).toBe(10);
  });

  test("refuses calls while the loop is delayed and many wait, and not while few wait", () => {
    const pauses = Array.from({ length: 20 }, () => 100);
    expect(admitBetween(pauses, 200)).toBe("some");
    expect(admitBetween(pauses, 64)).toBe("all");
  });
});

/** Admits calls after each pause of the loop, and finishes them before the next one. */
function admitBetween(pausesMs: readonly number[], calls: number): "all" | "some" {
  let now = 0;
  let timer = (): void => undefined;
  const guard = createOverloadGuard({
    now: () => now,
    schedule: (sample) => {
      timer = sample;
    },
  });
  let areAllAdmitted = true;
  for (const pauseMs of pausesMs) {
    let admitted = 0;
    for (let index = 0; index < calls; index++)
      if (isAdmitted(guard, "acct_a")) admitted += 1;
      else areAllAdmitted = false;
    now += pauseMs;
    for (let index = 0; index < admitted; index++) guard.finish();
    timer();
  }
  return areAllAdmitted ? "all" : "some";
}

describe("a gateway whose event loop stays delayed", () => {
  test("answers calls with 503 and retry-after in the form of each API, and serves again afterwards", async () => {
    const gateway = await startGateway({ shedsLoad: true });
    const account = await registerAccount(gateway);
    const post = (api: "chat" | "messages" | "responses"): Promise<Response> =>
      postCall(gateway, account, api, bodyOf(api, "[[sim: tokens=1 latency=300]] hello"));
    for (const api of ["chat", "messages", "responses"] as const) {
      let refused: Response | undefined;
      await eventually(async () => {
        // Calls keep arriving while the first ones wait for the provider and the loop is delayed.
        const calls: Promise<Response>[] = [];
        for (let turn = 0; turn < 10; turn++) {
          calls.push(...Array.from({ length: 40 }, () => post(api)));
          blockLoop(50);
          await new Promise((resolve) => setImmediate(resolve));
        }
        const responses = await Promise.all(calls);
        refused = responses.find(({ status }) => status === 503);
        return refused !== undefined;
      });
      expect(refused?.headers.get("retry-after")).toBe("1");
      expect(await refused?.json()).toMatchObject({
        error: { message: expect.stringContaining("overloaded") },
      });
    }
    await eventually(async () => (await post("chat")).status === 200);
    await gateway.server.idle();
    expect(await gateway.server.db.all("select id from hold")).toEqual([]);
    await gateway.stop();
  });
});

/** The gateway runs in this process. */
function blockLoop(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end;);
}
