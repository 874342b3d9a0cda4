// The verification of the ledger at an interval: when it is due, which process runs it, and what it reports.

import { describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { createLog } from "../../src/base/log.ts";
import { commandRunner } from "../../src/commands/workers/worker-process.ts";
import {
  createLedgerVerification,
  type LedgerVerificationDeps,
} from "../../src/server/ledger-verification.ts";
import type { Db } from "../../src/store/db.ts";
import { verifyFromCheckpoint } from "../../src/verification/verify.ts";
import { eventually } from "../support/eventually.ts";
import { PROGRAM } from "../support/program.ts";
import { describeEachStore, openStore } from "../support/stores/stores.ts";

const START = Date.UTC(2027, 0, 10);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

function createHarness(
  db: Db,
  processName = "gateway",
  changes: Partial<LedgerVerificationDeps> = {},
) {
  const clock = { now: START };
  const logged: string[] = [];
  const runs: number[] = [];
  const answer = { text: '{"problem_count":0,"problems":[]}' };
  const log = createLog({
    level: "info",
    isPretty: false,
    now: () => clock.now,
    write: (line) => logged.push(line),
  });
  const verification = createLedgerVerification({
    db,
    log,
    now: () => clock.now,
    processName,
    hours: 24,
    runCommand: async (args) => {
      expect(args).toEqual(["admin", "verify-ledger", "--json"]);
      runs.push(clock.now);
      return answer.text;
    },
    ...changes,
  });
  const runAt = async (now: number): Promise<void> => {
    clock.now = now;
    await verification.run();
    // The result is written after the job.
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { verification, runAt, runs, logged, answer };
}

function registerProcess(db: Db, name: string, seenAt: number): Promise<unknown> {
  return db.write((tx) =>
    tx.run("insert into process (name, epoch, started_at, seen_at) values (?, 1, ?, ?)", [
      name,
      seenAt,
      seenAt,
    ]),
  );
}

describeEachStore((kind, open) => {
  describe(`the ledger on ${kind}`, () => {
    test("is verified once per interval, and not while another verification is recent", async () => {
      const store = await open();
      const { runAt, runs, logged } = createHarness(store.db);
      await runAt(START);
      await runAt(START + HOUR_MS);
      expect(runs).toEqual([START]);
      expect(logged.join()).toContain("verified the ledger");
      // An operator runs the command.
      await verifyFromCheckpoint(store.db, { now: START + DAY_MS - HOUR_MS });
      await runAt(START + DAY_MS);
      expect(runs).toHaveLength(1);
      await runAt(START + 2 * DAY_MS);
      expect(runs).toHaveLength(2);
      await store.close();
    });

    test("has a problem until a verification finds none", async () => {
      const store = await open();
      const { verification, runAt, logged, answer } = createHarness(store.db);
      answer.text = '{"problem_count":2,"problems":["a wallet is wrong","a hold is wrong"]}';
      await runAt(START);
      expect(verification.problem()).toContain("2 differences");
      expect(logged.join()).toContain("a wallet is wrong");
      await runAt(START + HOUR_MS);
      expect(verification.problem()).toContain("2 differences");
      answer.text = '{"problem_count":0,"problems":[]}';
      await runAt(START + DAY_MS);
      expect(verification.problem()).toBeUndefined();
      await store.close();
    });

    test("no longer has a problem once another process verified it", async () => {
      const store = await open();
      const { verification, runAt, answer } = createHarness(store.db);
      answer.text = '{"problem_count":1,"problems":["a wallet is wrong"]}';
      await runAt(START);
      await verifyFromCheckpoint(store.db, { now: START + HOUR_MS });
      await runAt(START + HOUR_MS + 1);
      expect(verification.problem()).toBeUndefined();
      await store.close();
    });

    test("a verification that fails is logged and repeated", async () => {
      const store = await open();
      const { verification, runAt, runs, logged, answer } = createHarness(store.db);
      answer.text = "Segmentation fault";
      await runAt(START);
      expect(logged.join()).toContain("could not be verified");
      expect(verification.problem()).toBeUndefined();
      await runAt(START + 300_000);
      expect(runs).toHaveLength(2);
      await store.close();
    });

    test("of several processes, the first by name of those that run verifies", async () => {
      const store = await open();
      await registerProcess(store.db, "a", START);
      await registerProcess(store.db, "b", START);
      const [a, b] = [createHarness(store.db, "a"), createHarness(store.db, "b")];
      await Promise.all([a.runAt(START), b.runAt(START)]);
      expect([a.runs.length, b.runs.length]).toEqual([1, 0]);
      // Process `a` died.
      const later = START + DAY_MS;
      await store.db.write((tx) =>
        tx.run("update process set seen_at = ? where name = 'b'", [later]),
      );
      await b.runAt(later);
      expect(b.runs).toHaveLength(1);
      await store.close();
    });
  });
});

test("a process of its own finds a difference of the store that is in use", async () => {
  const store = await openStore("sqlite");
  await store.db.write((tx) =>
    tx.run("insert into account (id, created_at, created_from) values ('acct_x', 1, 'x')"),
  );
  const settings = { ...process.env, POSTERN_DATA_DIR: store.location.address };
  const run = commandRunner(PROGRAM, settings);
  // Its process has the lowest priority, so on a busy machine it takes long.
  const printed = Promise.withResolvers<string>();
  const runCommand = (args: readonly string[]): Promise<string> => {
    printed.resolve(run(args));
    return printed.promise;
  };
  const { verification, runAt, logged } = createHarness(store.db, "gateway", { runCommand });
  await runAt(START);
  await printed.promise;
  expect(await eventually(() => verification.problem())).toContain("1 difference");
  expect(logged.join()).toContain("acct_x");
  const missing = commandRunner(PROGRAM, { ...settings, POSTERN_PORT: "x" });
  expect(missing(["admin", "verify-ledger", "--json"])).rejects.toThrow("POSTERN_PORT");
  await store.close();
  rmSync(store.location.address, { recursive: true, force: true });
});
