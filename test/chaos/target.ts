// The operations of a chaos run on the gateways and the store under test.

import { deposit } from "../../src/ledger/ledger.ts";
import type { Db } from "../../src/store/db.ts";
import { promoDeposit } from "../ledger/fixtures.ts";
import { registerAccount } from "../support/gateway.ts";

export interface ChaosTarget {
  readonly urls: readonly string[];
  readonly keys: readonly string[];
  readonly simulatorUrl: string;
  readonly faults: Readonly<Record<string, Fault>>;
  /** Drains the gateways; returns what went wrong or stays open. */
  readonly stop: () => Promise<readonly string[]>;
  readonly openStore: () => Db;
  /** Ends at once what still runs. */
  readonly end: () => void;
}

/** A fault that lasts waits for calls that meet it. */
export type Fault = (waitForCalls: (count: number) => Promise<void>) => Promise<void>;

export const CALLERS = 12;
/** Faults follow each other after this many calls. */
export const CALLS_PER_FAULT = 40;
/** A call that takes longer hangs: longer than any timeout on its way. */
export const HANG_MS = 50_000;

export const ACCOUNTS = 3;
const CREDIT = 1_000_000_000_000n;

/** Returns one API key of each account. */
export async function createAccounts(
  url: string,
  db: Db,
  count: number,
): Promise<readonly string[]> {
  const accounts = await Promise.all(Array.from({ length: count }, () => registerAccount({ url })));
  await db.write(async (tx) => {
    for (const { id } of accounts) await deposit(tx, promoDeposit(`chaos.${id}`, id, CREDIT, 1));
  });
  await db.close();
  return accounts.map(({ key }) => key);
}
