// Webhooks, events and what emits them, behind the real request handler, on a given store and a test clock.

import { balanceAlertRoutes } from "../../src/accounts/balance-alert-routes.ts";
import { activityRoutes } from "../../src/activity/activity-routes.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { createLog } from "../../src/base/log.ts";
import type { ResolveHost } from "../../src/base/network/public-endpoint.ts";
import { createRequestHandler } from "../../src/http/request-handler.ts";
import { grantedScopes } from "../../src/http/scopes.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import { keyRoutes } from "../../src/keys/keys-routes.ts";
import { createKeys, type Keys } from "../../src/keys/keys.ts";
import { createLedger, type Ledger } from "../../src/ledger/ledger.ts";
import { providerKeyRoutes } from "../../src/provider-keys/provider-keys-routes.ts";
import { createProviderKeys } from "../../src/provider-keys/provider-keys.ts";
import { createSignedRequests } from "../../src/signed-requests/signed-requests.ts";
import type { Db, Tx } from "../../src/store/db.ts";
import { createDeliveryWorker, type DeliveryWorker } from "../../src/webhooks/delivery-worker.ts";
import { webhookRoutes } from "../../src/webhooks/webhooks-routes.ts";
import { createWebhooks, type Webhooks } from "../../src/webhooks/webhooks.ts";
import { openAccount } from "../ledger/fixtures.ts";
import { type ApiResponse, callRoutes } from "../support/call-routes.ts";

export const MASTER = secret("a master secret that only tests know, forty-three");
export const START_MS = Date.parse("2026-11-21T09:30:00Z");
export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;

export interface Harness {
  readonly db: Db;
  readonly webhooks: Webhooks;
  readonly keys: Keys;
  readonly ledger: Ledger<never>;
  readonly logged: string[];
  readonly clock: { now: number };
  readonly newWorker: (options?: WorkerOptions) => DeliveryWorker;
  /** Sends all due deliveries and waits for them. */
  readonly deliver: (worker?: DeliveryWorker) => Promise<void>;
  readonly call: (
    caller: string,
    method: string,
    path: string,
    body?: unknown,
  ) => Promise<ApiResponse>;
  readonly idempotency: { key: string | undefined };
  /** Creates a webhook of the account `alice`. */
  readonly createWebhook: (
    url: string,
    more?: Readonly<Record<string, unknown>>,
  ) => Promise<CreatedWebhook>;
  readonly log: (webhookId: string) => Promise<readonly LoggedDelivery[]>;
}

interface CreatedWebhook {
  readonly id: string;
  readonly secret: string;
}

interface LoggedDelivery {
  readonly id: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly status: string;
  readonly tries: number;
  readonly next_try_at: string | null;
  readonly attempts: readonly {
    readonly status: number | null;
    readonly error: string | null;
    readonly response: string;
  }[];
}

interface WorkerOptions {
  readonly timeoutMs?: number;
  readonly resolve?: ResolveHost;
  readonly random?: number;
}

const TABLES = [
  "event",
  "webhook",
  "webhook_delivery",
  "audit",
  "api_key",
  "spender",
  "wallet",
  "hold",
  "transfer",
  "provider_key",
  "account",
  "membership",
  "person",
  "claim_attempt",
  "claim_count",
  "human_grant",
  "idempotent_answer",
] as const;

/** Cheaper than opening a new store. */
export async function truncateTables(db: Db): Promise<void> {
  await db.write(async (tx) => {
    for (const table of TABLES) await tx.run(`delete from ${table}`);
  });
}

/** Does nothing if another harness on this store has inserted it. */
export async function insertAccount(
  tx: Tx,
  id: string,
  keyIds: readonly string[] = [],
): Promise<void> {
  await tx.run(
    "insert into account (id, created_at, created_from) values (?, ?, '') on conflict (id) do nothing",
    [id, START_MS],
  );
  await openAccount(tx, id, keyIds, START_MS);
}

/** The callers `alice` and `bob` have the accounts `acct_alice` and `acct_bob`. */
export async function createHarness(db: Db, allowLoopback = true): Promise<Harness> {
  const clock = { now: START_MS };
  const now = (): number => clock.now;
  const logged: string[] = [];
  const log = createLog({
    level: "debug",
    isPretty: false,
    now,
    write: (line) => logged.push(line),
  });
  const webhooks = createWebhooks({ master: MASTER, allowLoopback });
  const keys = createKeys({ db, master: MASTER, prefix: "pst" });
  const baseUrl = "http://127.0.0.1:8787";
  const ledger = createLedger<never>({
    db,
    process: "test",
    epoch: 1,
    writeRecords: async () => {},
  });
  const providerKeys = createProviderKeys({
    db,
    master: MASTER,
    providers: () => ["openai"],
    check: async () => ({ kind: "accepted", status: "active" }),
  });
  const idempotency = createIdempotency(MASTER);
  const handle = createRequestHandler({
    routes: [
      ...webhookRoutes({ db, webhooks }),
      ...activityRoutes({ db }),
      ...balanceAlertRoutes({ db }),
      ...keyRoutes({
        db,
        keys,
        provePublicKey: createSignedRequests({ db, keys, baseUrl }).provePublicKey,
      }),
      ...providerKeyRoutes({ db, providerKeys }),
    ],
    baseUrl,
    log,
    now,
    keys: {
      find: async (raw) =>
        raw === "alice" || raw === "bob"
          ? { accountId: `acct_${raw}`, keyId: `key_${raw}`, granted: grantedScopes(null, false) }
          : undefined,
    },
    writes: {
      db,
      beginIdempotent: idempotency.begin,
      finishIdempotent: idempotency.finish,
    },
    clientIpOf: () => "203.0.113.7",
    isDraining: () => false,
  });
  await db.write(async (tx) => {
    for (const name of ["alice", "bob"]) await insertAccount(tx, `acct_${name}`, [`key_${name}`]);
  });
  const newWorker: Harness["newWorker"] = ({ timeoutMs = 60_000, resolve, random = 0.5 } = {}) =>
    createDeliveryWorker({
      db,
      log,
      now,
      webhooks,
      allowLoopback,
      timeoutMs,
      drainMs: 100,
      random: () => random,
      ...(resolve === undefined ? {} : { resolve }),
    });
  const defaultWorker = newWorker();
  const idempotencyHeader: Harness["idempotency"] = { key: undefined };
  const call: Harness["call"] = (caller, method, path, body) => {
    const { key } = idempotencyHeader;
    const headers = key === undefined ? undefined : { "idempotency-key": key };
    return callRoutes(handle, { caller, method, path, body, headers });
  };
  return {
    db,
    webhooks,
    keys,
    ledger,
    logged,
    clock,
    newWorker,
    deliver: async (worker = defaultWorker) => {
      await worker.tick();
      await worker.idle();
    },
    call,
    idempotency: idempotencyHeader,
    createWebhook: async (url, more = {}) => {
      const { status, body, text } = await call("alice", "POST", "/v1/webhooks", { url, ...more });
      if (status !== 201) throw new Error(text);
      return { id: String(body["id"]), secret: String(body["secret"]) };
    },
    log: async (webhookId) => {
      const { body } = await call("alice", "GET", `/v1/webhooks/${webhookId}/deliveries`);
      return body["data"] as readonly LoggedDelivery[];
    },
  };
}
