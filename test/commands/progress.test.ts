// The progress of long commands, and Ctrl+C.

import { afterAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import path from "node:path";
import { isInterrupted, startProgress } from "../../src/commands/progress.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { openAccount } from "../ledger/fixtures.ts";
import { runInProcess } from "../support/run-command.ts";
import { dropPostgres, testPostgres } from "../support/stores/postgres.ts";
import { createTempFolder } from "./run-postern.ts";

function startAt({ isTerminal }: { readonly isTerminal: boolean }) {
  const written: string[] = [];
  const handlers: (() => void)[] = [];
  const clock = { now: 0 };
  const progress = startProgress(
    {
      progress: { isTerminal, write: (text) => written.push(text), monotonicNow: () => clock.now },
      onSignal: (_, handler) => handlers.push(handler),
    },
    { unit: "rows", verb: "copied", whenInterrupted: "Run it again." },
  );
  return {
    progress,
    written,
    interrupt: () => handlers[0]?.(),
    after: (ms: number) => {
      clock.now += ms;
    },
  };
}

describe("the progress of a command", () => {
  test("is one line on a terminal, with rate and time left", () => {
    const { progress, written, after } = startAt({ isTerminal: true });
    progress.update(1, 4_000);
    expect(written).toEqual([]);
    after(10_000);
    progress.update(1_000, 4_000, "wallet");
    expect(written).toEqual([
      "\r\u001b[Kwallet: 1,000 of 4,000 rows (25 %), 100 rows/s, 30 s left",
    ]);
    after(100);
    progress.update(1_100, 4_000);
    expect(written).toHaveLength(1);
    after(29_900);
    progress.end(4_000);
    expect(written.slice(1)).toEqual(["\r\u001b[K", "copied 4,000 rows in 40 s, 100 rows/s\n"]);
  });

  test("is a line every ten seconds elsewhere", () => {
    const { progress, written, after } = startAt({ isTerminal: false });
    for (let second = 1; second <= 25; second++) {
      after(1_000);
      progress.update(second * 10);
    }
    progress.end();
    expect(written).toEqual([
      "100 rows, 10 rows/s\n",
      "200 rows, 10 rows/s\n",
      "copied 250 rows in 25 s, 10 rows/s\n",
    ]);
  });

  test("ends at Ctrl+C and says how to go on", () => {
    const { progress, interrupt } = startAt({ isTerminal: true });
    progress.update(5);
    interrupt();
    let thrown: unknown;
    try {
      progress.update(7);
    } catch (error) {
      thrown = error;
    }
    expect(isInterrupted(thrown)).toBe(true);
    expect(String(thrown)).toContain("stopped after 7 rows. Run it again.");
  });
});

describe("Ctrl+C", () => {
  const temp = createTempFolder();
  afterAll(() => temp.remove());
  let send: (signal: string) => void = () => {};
  const interrupted = (args: readonly string[]) =>
    runInProcess(args, temp.settings, {
      onStart: (sender) => {
        send = sender;
      },
      // The clock is read when the work begins.
      monotonicNow: () => {
        send("SIGINT");
        return 0;
      },
    });

  test("ends a verification", async () => {
    await runInProcess(["migrate"], temp.settings);
    const { code, stderr } = await interrupted(["admin", "verify-ledger", "--full"]);
    expect(code).toBe(130);
    expect(stderr).toMatch(/stopped after \d+ checks\. Nothing was changed\./);
  });

  test("can end a backup, which says how much it copied", async () => {
    const file = path.join(temp.folder, "copy.db");
    const complete = await runInProcess(["admin", "backup", file], temp.settings);
    expect(complete.stderr).toMatch(/copied [\d,]+ bytes in /);
    expect(existsSync(file)).toBe(true);
    const db = openSqlite({ folder: path.join(temp.folder, "data"), lock: false });
    await db.write((tx) =>
      tx.run(
        "create table large as with recursive n(i) as (select 1 union all select i + 1 from n where i < 400000) select i, hex(randomblob(100)) as text from n",
      ),
    );
    const other = path.join(temp.folder, "other.db");
    const stop = (): never => {
      throw new Error("stopped");
    };
    expect(await db.backup(other, stop).catch(String)).toBe("Error: stopped");
    expect(existsSync(other)).toBe(false);
    await db.write((tx) => tx.run("drop table large"));
    await db.write((tx) => openAccount(tx, "acct_1", ["key_1"], 1));
    await db.close();
  });

  test("ends a move, which then continues", async () => {
    const target = await testPostgres();
    const move = ["move", "--to", target];
    const stopped = await interrupted(move);
    expect(stopped.code).toBe(130);
    expect(stopped.stderr).toMatch(
      /postern move: stopped after \d+ rows\. Run the same command again: it continues/,
    );
    const moved = await runInProcess(move, temp.settings);
    expect(moved).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("The move is complete."),
    });
    expect(moved.stderr).toMatch(/copied \d+ rows in .*\ncompared \d+ rows in /);
    await dropPostgres(target);
  });
});

test("reports and verifications can be had as pages", async () => {
  const temp = createTempFolder();
  await runInProcess(["migrate"], temp.settings);
  for (const [args, text] of [
    [["admin", "report", "--html"], "Postern report"],
    [["admin", "verify-ledger", "--html"], "No differences."],
  ] as const) {
    const { code, stdout } = await runInProcess(args, temp.settings);
    expect([code, stdout.startsWith("<!doctype html>")]).toEqual([0, true]);
    expect(stdout).toContain(text);
  }
  temp.remove();
});
