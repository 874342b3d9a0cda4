// The guard against overload: what it refuses while more calls arrive than can be served, and how it shares what can.

import { describe, expect, test } from "bun:test";
import {
  CALL_REFUSED,
  createOverloadGuard,
  EVENT_LOOP,
  type OverloadGuard,
} from "../../src/http/guards/overload.ts";
import { bodyOf, PATHS, postCall, usageRecordsOf } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

type PerMs = Readonly<Record<string, number>>;

interface Sums {
  readonly offered: Record<string, number>;
  readonly admitted: Record<string, number>;
  /** Of admitted calls. */
  readonly waitedMs: number[];
}

/** What a refusal costs, as a share of a call. */
const REFUSAL_SHARE = 0.05;

/**
 * An event loop that serves a number of calls per millisecond, in simulated time. Each turn takes all that has arrived, and an
 * admitted call takes its time at once.
 */
function simulateProcess(capacity: number) {
  let perMs = capacity;
  let now = 0;
  /** Of other processes. */
  let otherMs = 0;
  let lastTurn = 0;
  let open = 0;
  let sums: Sums = { offered: {}, admitted: {}, waitedMs: [] };
  let inNextTurn: (() => void)[] = [];
  const guard = createOverloadGuard({
    now: () => now,
    cpuMs: () => now - otherMs,
    inNextTurn: (run) => inNextTurn.push(run),
    // The call runs in a promise of its own, which was resolved first.
    untilStarted: async () => {
      await Promise.resolve();
      await Promise.resolve();
    },
  });
  const serve = (account: string, arrivedAt: number): void => {
    sums.admitted[account] = (sums.admitted[account] ?? 0) + 1;
    sums.waitedMs.push(now - arrivedAt);
    now += 1 / perMs;
    open += 1;
  };
  const arrive = (account: string, arrivedAt: number): void => {
    sums.offered[account] = (sums.offered[account] ?? 0) + 1;
    try {
      const admission = guard.admit(account);
      if (admission === undefined) serve(account, arrivedAt);
      else admission.then(() => serve(account, arrivedAt), expectRefused);
    } catch (error) {
      expectRefused(error);
      now += REFUSAL_SHARE / perMs;
    }
  };
  const runTurn = async (perMsByAccount: PerMs): Promise<void> => {
    const [from, until] = [lastTurn, now];
    for (const [account, rate] of Object.entries(perMsByAccount)) {
      const calls = Math.floor(until * rate) - Math.floor(from * rate);
      for (let call = 0; call < calls; call++) arrive(account, (from + until) / 2);
    }
    const due = inNextTurn;
    inNextTurn = [];
    for (const run of due) run();
    await new Promise((resolve) => setImmediate(resolve));
    for (; open > 0; open--) guard.finish();
    // A loop without work waits for it.
    if (now === until) now += 1;
    lastTurn = until;
  };
  const runTurns = async (ms: number, perMsByAccount: PerMs): Promise<void> => {
    const end = now + ms;
    const isOver = (): boolean => now >= end;
    while (!isOver()) await runTurn(perMsByAccount);
  };
  return {
    /** Runs with so many arrivals per millisecond of each account. */
    run: async (ms: number, perMsByAccount: PerMs): Promise<Sums> => {
      sums = { offered: {}, admitted: {}, waitedMs: [] };
      await runTurns(ms, perMsByAccount);
      return sums;
    },
    /** So many calls arrive together, and then none. */
    burst: async (calls: number): Promise<Sums> => {
      sums = { offered: {}, admitted: {}, waitedMs: [] };
      for (let index = 0; index < calls; index++) arrive("acct_a", now);
      await runTurns(2_000, {});
      return sums;
    },
    /** So many callers, each of which sends its next call when its last one was served. Returns how many of their calls were refused. */
    runClosedLoop: async (callers: number, ms: number, pausedMs: number): Promise<number> => {
      let refused = 0;
      const waiting = new Set(Array.from({ length: callers }, (_, caller) => caller));
      for (const end = now + ms; now < end;) {
        // Other processes have the processor.
        now += pausedMs;
        otherMs += pausedMs;
        const arrivedAt = now;
        const ready = [...waiting];
        waiting.clear();
        for (const caller of ready)
          try {
            const admission = guard.admit("acct_a");
            if (admission === undefined) {
              serve("acct_a", arrivedAt);
              waiting.add(caller);
            } else
              admission.then(
                () => {
                  serve("acct_a", arrivedAt);
                  waiting.add(caller);
                },
                () => (refused += 1),
              );
          } catch {
            refused += 1;
          }
        await runTurn({});
      }
      return refused;
    },
    pause: (ms: number): void => {
      now += ms;
    },
    slowDown: (factor: number): void => {
      perMs /= factor;
    },
  };
}

function expectRefused(error: unknown): void {
  if (error !== CALL_REFUSED) throw error;
}

function percentile99(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length * 0.99)] ?? 0;
}

function total(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

describe("the overload guard", () => {
  test("admits everything below capacity", async () => {
    const { run } = simulateProcess(10);
    const { offered, admitted } = await run(3_000, { acct_a: 9 });
    expect(admitted).toEqual(offered);
  });

  test("serves four fifths of the capacity at four times as many calls, and few of them wait long", async () => {
    const { run } = simulateProcess(10);
    const { admitted, waitedMs } = await run(5_000, { acct_a: 40 });
    expect(total(admitted)).toBeGreaterThan(40_000);
    expect(percentile99(waitedMs)).toBeLessThan(150);
    const later = await run(3_000, { acct_a: 40 });
    expect(total(later.admitted)).toBeGreaterThan(24_000);
    expect(percentile99(later.waitedMs)).toBeLessThan(70);
  });

  test("admits all calls of an account with few while another one has too many", async () => {
    const { run } = simulateProcess(10);
    await run(1_000, { acct_a: 40, acct_b: 1 });
    const { offered, admitted } = await run(3_000, { acct_a: 40, acct_b: 1 });
    expect(admitted["acct_b"]).toBeGreaterThan(0.99 * (offered["acct_b"] ?? 0));
    expect(admitted["acct_a"]).toBeGreaterThan(21_000);
  });

  test("shares equally between accounts that all have too many", async () => {
    const { run } = simulateProcess(12);
    const load = { acct_a: 40, acct_b: 20, acct_c: 40 };
    await run(1_000, load);
    const { admitted } = await run(3_000, load);
    const [a = 0, b = 0, c = 0] = ["acct_a", "acct_b", "acct_c"].map((name) => admitted[name]);
    expect(Math.min(a, b, c)).toBeGreaterThan(7_000);
    expect(Math.max(a, b, c) / Math.min(a, b, c)).toBeLessThan(1.05);
  });

  test("serves no more than the capacity of a thousand accounts that have few calls each", async () => {
    const { run } = simulateProcess(10);
    const accounts = Array.from({ length: 1_000 }, (_, index) => [`acct_${index}`, 0.04] as const);
    const load = Object.fromEntries(accounts);
    await run(1_000, load);
    const { admitted, waitedMs } = await run(2_000, load);
    expect(total(admitted)).toBeGreaterThan(16_000);
    expect(percentile99(waitedMs)).toBeLessThan(130);
  });

  test("admits everything within a second after the overload", async () => {
    const { run } = simulateProcess(10);
    await run(3_000, { acct_a: 40 });
    const first = await run(1_000, { acct_a: 5 });
    expect(total(first.admitted)).toBeGreaterThan(0.95 * total(first.offered));
    const { offered, admitted } = await run(1_000, { acct_a: 5 });
    expect(admitted).toEqual(offered);
  });

  test("serves everything again after the process was slow for a second", async () => {
    const process = simulateProcess(10);
    await process.run(1_000, { acct_a: 9 });
    process.slowDown(10);
    await process.run(1_000, { acct_a: 9 });
    process.slowDown(1 / 10);
    await process.run(1_000, { acct_a: 9 });
    const { offered, admitted } = await process.run(1_000, { acct_a: 9 });
    expect(admitted).toEqual(offered);
  });

  test("serves a thousand calls that arrive together", async () => {
    const { burst } = simulateProcess(3);
    const { admitted } = await burst(1_000);
    expect(admitted["acct_a"]).toBe(1_000);
  });

  test("serves all calls of a loop that waits for a slow disk in each turn", async () => {
    const { run, pause } = simulateProcess(10);
    await run(1_000, { acct_a: 40 });
    const sums = { offered: 0, admitted: 0 };
    for (let turn = 0; turn < 40; turn++) {
      pause(100);
      const { offered, admitted } = await run(1, { acct_a: 0.5 });
      // The first second is the end of the overload.
      if (turn < 10) continue;
      sums.offered += total(offered);
      sums.admitted += total(admitted);
    }
    expect(sums.admitted).toBe(sums.offered);
  });

  test("refuses nothing while other processes delay a loop with few calls", async () => {
    const { run } = simulateProcess(0.02);
    const { offered, admitted } = await run(3_000, { acct_a: 0.009, acct_b: 0.009 });
    expect(admitted).toEqual(offered);
  });

  test.each([
    [64, 0],
    [64, 50],
    [1_000, 0],
    [1_000, 50],
    [1_000, 200],
  ])(
    "refuses nothing of %i callers that wait for their replies, with pauses of %i ms",
    async (callers, pausedMs) => {
      const { runClosedLoop } = simulateProcess(5);
      expect(await runClosedLoop(callers, 20_000, pausedMs)).toBe(0);
    },
  );

  test("refuses nothing after one long pause of the loop", async () => {
    const { run, pause } = simulateProcess(10);
    await run(1_000, { acct_a: 5 });
    pause(500);
    const { offered, admitted } = await run(1_000, { acct_a: 5 });
    expect(admitted).toEqual(offered);
  });
});

describe("a gateway with more calls than it can serve", () => {
  test("answers calls with 503 and retry-after in the form of each API, and serves again afterwards", async () => {
    let simulatedMs = 0;
    let stepMs = 0;
    const now = (): number => (simulatedMs += stepMs);
    const overload = createOverloadGuard({ ...EVENT_LOOP, now, cpuMs: now });
    const gateway = await startGateway({ overload });
    const account = await registerAccount(gateway);
    const post = (api: "chat" | "messages" | "responses"): Promise<Response> =>
      postCall(gateway, account, api, bodyOf(api, "[[sim: tokens=1]] hello"));
    for (const api of ["chat", "messages", "responses"] as const) {
      // Each look at the clock finds it 100 ms later, so each turn admits one call.
      stepMs = 100;
      const first = Array.from({ length: 100 }, () => post(api));
      await Promise.race(first);
      const later = Array.from({ length: 50 }, () => post(api));
      await Promise.race(later);
      stepMs = 0;
      const responses = await Promise.all([...first, ...later]);
      const refused = responses.filter(({ status }) => status === 503);
      expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200, 503]));
      const ids = new Set<string>();
      for (const response of refused) {
        expect(response.headers.get("retry-after")).toBe("1");
        expect(response.headers.get("content-type")).toBe("application/json");
        expect(response.headers.get("access-control-allow-origin")).toBe("*");
        const id = response.headers.get("x-request-id") ?? "";
        ids.add(id);
        const text = await response.text();
        expect(JSON.parse(text)).toMatchObject({
          error: { message: expect.stringContaining("overloaded") },
        });
        if (api === "messages") expect(text).toContain(id);
      }
      expect(ids.size).toBe(refused.length);
      simulatedMs += 60_000;
      expect((await post(api)).status).toBe(200);
    }
    await gateway.server.idle();
    expect(await gateway.server.db.all("select id from hold")).toEqual([]);
    await gateway.stop();
  });

  test("does not count refused calls towards the limit of rejected calls", async () => {
    let isFull = true;
    const overload: OverloadGuard = {
      admit: () => {
        if (isFull) throw CALL_REFUSED;
        return undefined;
      },
      finish: () => {},
      isBusy: () => false,
    };
    const env = { POSTERN_REQUESTS_PER_MINUTE: "60" };
    const gateway = await startGateway({ overload, env });
    const account = await registerAccount(gateway);
    const post = (): Promise<Response> => postCall(gateway, account, "chat", bodyOf("chat", "hi"));
    const refused = await Promise.all(Array.from({ length: 30 }, post));
    expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([503]));
    isFull = false;
    expect((await post()).status).toBe(200);
    await gateway.stop();
  });

  test("refuses a call before it reads its body", async () => {
    const overload: OverloadGuard = {
      admit: () => Promise.reject(CALL_REFUSED),
      finish: () => {},
      isBusy: () => false,
    };
    const gateway = await startGateway({ overload });
    const { headers } = await registerAccount(gateway);
    let reads = 0;
    const neverRead = new ReadableStream(
      {
        pull: () => {
          reads += 1;
          return new Promise(() => {});
        },
      },
      { highWaterMark: 0 },
    );
    const request = new Request(gateway.url + PATHS.chat, {
      method: "POST",
      headers,
      body: neverRead,
    });
    const peer = { address: () => "127.0.0.1", disableIdleTimeout: () => {} };
    const { status } = await gateway.server.handle(request, peer);
    expect([status, reads]).toEqual([503, 0]);
    await gateway.stop();
  });

  test("does not run a call whose client has left the queue", async () => {
    const admissions: (() => void)[] = [];
    let finished = 0;
    const overload: OverloadGuard = {
      admit: () => new Promise((resolve) => admissions.push(resolve)),
      finish: () => (finished += 1),
      isBusy: () => false,
    };
    const gateway = await startGateway({ overload });
    const account = await registerAccount(gateway);
    const controllers = [new AbortController(), new AbortController()];
    const calls = controllers.map(({ signal }) =>
      gateway.server.handle(
        new Request(gateway.url + PATHS.chat, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify(bodyOf("chat", "hello")),
          signal,
        }),
        { address: () => "127.0.0.1", disableIdleTimeout: () => {} },
      ),
    );
    await eventually(() => admissions.length === calls.length);
    controllers[0]?.abort();
    for (const admit of admissions) admit();
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect([statuses, finished]).toEqual([[408, 200], 2]);
    expect(await usageRecordsOf(gateway.server.db, account.id)).toHaveLength(1);
    await gateway.stop();
  });
});
