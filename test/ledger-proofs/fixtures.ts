// A store with accounts and entries of several days, and proofs of them.

import { signingKeyFrom } from "../../src/base/crypto/jws.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { newId } from "../../src/base/id.ts";
import type { JsonObject } from "../../src/base/json.ts";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { findProof, type ProofDeps } from "../../src/ledger-proofs/find-proof.ts";
import { publishDueDays } from "../../src/ledger-proofs/publish-day.ts";
import { createPublishedLog } from "../../src/ledger-proofs/published-log.ts";
import { deposit, type Ledger } from "../../src/ledger/ledger.ts";
import type { Db } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { openAccount, startLedger, usageRecord } from "../ledger/fixtures.ts";
import type { Gateway } from "../support/gateway.ts";

export const FIRST_DAY = Date.parse("2026-03-01T00:00:00Z");
export const ISSUER = "https://gateway.example";
export const master = secret("a-master-secret-of-these-tests-only");
const signingKey = signingKeyFrom(new Uint8Array(32).fill(7), "postern-1");

export const publicKeyOf = (id: string): string | undefined =>
  id === signingKey.id ? signingKey.publicKey : undefined;

/** When the record of a day is due. */
export function dueAt(day: number): number {
  return FIRST_DAY + (day + 1) * DAY_MS + 2 * HOUR_MS;
}

export function dayName(day: number): string {
  return new Date(FIRST_DAY + day * DAY_MS).toISOString().slice(0, 10);
}

export interface World {
  readonly db: Db;
  readonly deps: ProofDeps;
  readonly createAccount: (at: number) => Promise<string>;
  readonly deposit: (account: string, amount: bigint, at: number) => Promise<void>;
  /** A call that began at `from` and was charged at `at`. */
  readonly charge: (account: string, cost: bigint, at: number, from?: number) => Promise<void>;
  readonly publish: (now: number) => Promise<readonly string[]>;
  readonly proofOf: (account: string, day?: string, limit?: number) => Promise<JsonObject>;
}

export async function createWorld(db: Db): Promise<World> {
  const ledger: Ledger<UsageRecord> = await startLedger(db, "one", FIRST_DAY);
  const log = createPublishedLog({ db, baseUrl: ISSUER, currentKey: () => signingKey });
  const deps = { db, master, log };
  const keys = new Map<string, string>();
  return {
    db,
    deps,
    createAccount: async (at) => {
      const account = newId("acct", at);
      const keyId = newId("key", at);
      keys.set(account, keyId);
      await db.write((tx) => openAccount(tx, account, [keyId], at));
      return account;
    },
    deposit: async (accountId, amount, now) => {
      const id = newId("inv", now);
      const request = { id, accountId, bucket: "paid", from: "system:adjustment", amount } as const;
      await db.write((tx) => deposit(tx, { ...request, kind: "purchase", ref: "test", now }));
    },
    charge: async (accountId, cost, now, from = now) => {
      const call = { id: newId("req", from), accountId, keyId: keys.get(accountId) ?? "" };
      await ledger.hold({ ...call, amount: 0n, now: from, expiresAt: now + HOUR_MS });
      const record = usageRecord({ ...call, cost, createdAt: from });
      await ledger.settle({ ...call, cost, now, record });
    },
    publish: (now) => publishDueDays({ db, master, baseUrl: ISSUER }, now),
    // Through JSON, as a client gets it.
    proofOf: async (account, day, limit = 100) =>
      JSON.parse(JSON.stringify(await findProof(deps, { account, day, limit, offset: 0 }))),
  };
}

/** Publishes what is due by then. */
export function publishAt({ config, server, url }: Gateway, now: number) {
  const { secret: configured, store } = config;
  const gatewaySecret = loadMasterSecret({ secret: configured }, store.dataDir);
  return publishDueDays({ db: server.db, master: gatewaySecret, baseUrl: url }, now);
}
