// Verifies the ledger at an interval, from its last checkpoint. It runs in a process of its own, because reading SQLite
// would hold the event loop.

import { idTime } from "../base/id.ts";
import { isObject, parseJson } from "../base/json.ts";
import type { Log } from "../base/log.ts";
import { HOUR_MS } from "../base/time.ts";
import { isFirstProcess } from "../ledger/running-processes.ts";
import type { Db, Reader } from "../store/db.ts";
import { readPosition, SETTLED_AFTER_MS } from "../verification/checkpoint.ts";

const PROBLEMS_LOGGED_MAX = 5;

/** Runs `postern` with these arguments and resolves with what it printed. */
export type RunCommand = (args: readonly string[]) => Promise<string>;

export interface LedgerVerification {
  /** Verifies if it is due. */
  readonly run: () => Promise<void>;
  /** The result of the last verification. */
  readonly problem: () => string | undefined;
}

export interface LedgerVerificationDeps {
  readonly db: Db;
  readonly log: Log;
  readonly now: () => number;
  readonly processName: string;
  readonly hours: number;
  readonly runCommand: RunCommand;
}

export function createLedgerVerification(deps: LedgerVerificationDeps): LedgerVerification {
  const { db, log, now, processName, runCommand } = deps;
  const intervalMs = deps.hours * HOUR_MS;
  let startedAt: number | undefined;
  let isRunning = false;
  let problem: string | undefined;
  const isDue = async (at: number): Promise<boolean> => {
    const verifiedAt = await lastVerification(db);
    // Another process or an operator found no differences since.
    if (verifiedAt !== undefined && verifiedAt > (startedAt ?? 0)) problem = undefined;
    const last = Math.max(verifiedAt ?? 0, startedAt ?? 0);
    return Math.abs(at - last) >= intervalMs && (await isFirstProcess(db, processName, at));
  };
  const verify = async (at: number): Promise<void> => {
    startedAt = at;
    const { problemCount, problems } = parseOutput(
      await runCommand(["admin", "verify-ledger", "--json"]),
    );
    const ms = now() - at;
    if (problemCount === 0) log.info("verified the ledger", { ms });
    else
      log.error("the ledger has differences", {
        differences: problemCount,
        first: problems.slice(0, PROBLEMS_LOGGED_MAX),
        ms,
      });
    problem =
      problemCount === 0
        ? undefined
        : `The ledger has ${problemCount} ${problemCount === 1 ? "difference" : "differences"}. Run postern admin verify-ledger --full.`;
  };
  return {
    run: async () => {
      const at = now();
      if (isRunning || !(await isDue(at))) return;
      isRunning = true;
      // Not awaited: shutdown waits for running jobs, and this one may take a minute.
      void verify(at)
        .catch((cause: unknown) => {
          startedAt = undefined;
          log.error("the ledger could not be verified", { cause });
        })
        .finally(() => {
          isRunning = false;
        });
    },
    problem: () => problem,
  };
}

/** When the last verification without differences began. */
async function lastVerification(reader: Reader): Promise<number | undefined> {
  const position = await readPosition(reader);
  const at = position === undefined ? undefined : idTime("req", position);
  return at === undefined ? undefined : at + SETTLED_AFTER_MS;
}

function parseOutput(output: string): {
  readonly problemCount: number;
  readonly problems: readonly unknown[];
} {
  const result = parseJson(output);
  const count = isObject(result) ? result["problem_count"] : undefined;
  if (!isObject(result) || typeof count !== "number" || !Array.isArray(result["problems"]))
    throw new Error("postern admin verify-ledger printed no result");
  return { problemCount: count, problems: result["problems"] };
}
