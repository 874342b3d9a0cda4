// The rooms that tell and are told, behind real guards and idempotency, on a given store and a clock of the test's own.

import { auditRoutes } from "../../src/audit/routes.ts";
import { createLog } from "../../src/base/log.ts";
import { secret } from "../../src/base/secret.ts";
import { onFalls, onKeyChange, onProviderKeyChange } from "../../src/events/announce.ts";
import type { Resolve } from "../../src/events/endpoint.ts";
import { createPostman, type Postman } from "../../src/events/postman.ts";
import { webhookRoutes } from "../../src/events/routes.ts";
import { createWebhooks, type Webhooks } from "../../src/events/webhooks.ts";
import { createServe } from "../../src/http/serve.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import { createKeys, type Keys } from "../../src/keys/keys.ts";
import { keyRoutes } from "../../src/keys/routes.ts";
import { createLedger, type Ledger, openWallet } from "../../src/ledger/ledger.ts";
import { insertSpender } from "../../src/ledger/rows.ts";
import { createProviderKeys } from "../../src/provider-keys/provider-keys.ts";
import { providerKeyRoutes } from "../../src/provider-keys/routes.ts";
import type { Db } from "../../src/store/db.ts";

export const MASTER = secret("a master secret that only tests know, forty-three");
export const START = Date.parse("2026-11-21T09:30:00Z");
export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface World {
  readonly db: Db;
  readonly webhooks: Webhooks;
  readonly keys: Keys;
  readonly ledger: Ledger<never>;
  readonly logged: string[];
  readonly clock: { now: number };
  readonly newPostman: (options?: PostmanOptions) => Postman;
  /** Sends all that is due and waits for it. */
  readonly deliver: (postman?: Postman) => Promise<void>;
  readonly call: (who: string, method: string, path: string, body?: unknown) => Promise<Reply>;
  readonly idempotency: { key: string | undefined };
  /** Sets up a webhook of `alice`. */
  readonly hook: (url: string, more?: Readonly<Record<string, unknown>>) => Promise<Hook>;
  readonly log: (webhookId: string) => Promise<readonly LoggedDelivery[]>;
}

interface Hook {
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

interface PostmanOptions {
  readonly timeoutMs?: number;
  readonly resolve?: Resolve;
  readonly chance?: number;
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

/** As it was when it was new: cheaper than a new store. */
export async function empty(db: Db): Promise<void> {
  await db.write(async (tx) => {
    for (const table of TABLES) await tx.run(`delete from ${table}`);
  });
}

/** Callers are `alice` and `bob`, each with an account of that name. */
export async function openWorld(db: Db, allowLoopback = true): Promise<World> {
  const clock = { now: START };
  const now = (): number => clock.now;
  const logged: string[] = [];
  const log = createLog({
    level: "debug",
    readable: false,
    now,
    write: (line) => logged.push(line),
  });
  const webhooks = createWebhooks({ master: MASTER, allowLoopback });
  const keys = createKeys({ db, master: MASTER, prefix: "pst", openSpender: insertSpender });
  const ledger = createLedger<never>({
    db,
    process: "test",
    epoch: 1,
    writeRecords: async () => {},
    tellFalls: onFalls,
  });
  const providerKeys = createProviderKeys({
    db,
    master: MASTER,
    providers: () => ["openai"],
    check: async () => ({ kind: "accepted", status: "active" }),
  });
  const idempotency = createIdempotency(MASTER);
  const handle = createServe({
    routes: [
      ...webhookRoutes({ db, webhooks }),
      ...auditRoutes({ db }),
      ...keyRoutes({ db, keys, onKeyChange }),
      ...providerKeyRoutes({ db, providerKeys, onProviderKeyChange }),
    ],
    db,
    baseUrl: "http://127.0.0.1:8787",
    log,
    now,
    authenticate: async (raw) =>
      raw === "alice" || raw === "bob"
        ? { accountId: `acct_${raw}`, keyId: `key_${raw}` }
        : undefined,
    beginIdempotent: idempotency.begin,
    finishIdempotent: idempotency.finish,
    rate: undefined,
    addressOf: () => "203.0.113.7",
    isDraining: () => false,
  });
  await db.write(async (tx) => {
    for (const who of ["alice", "bob"]) await openWallet(tx, `acct_${who}`);
  });
  const newPostman: World["newPostman"] = ({ timeoutMs = 5_000, resolve, chance = 0.5 } = {}) =>
    createPostman({
      db,
      log,
      now,
      webhooks,
      allowLoopback,
      timeoutMs,
      drainMs: 100,
      chance: () => chance,
      ...(resolve === undefined ? {} : { resolve }),
    });
  const only = newPostman();
  const repeated: World["idempotency"] = { key: undefined };
  const call: World["call"] = async (who, method, path, body) => {
    const request = new Request(`http://127.0.0.1:8787${path}`, {
      method,
      headers: {
        ...(who === "" ? {} : { authorization: `Bearer ${who}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(repeated.key === undefined ? {} : { "idempotency-key": repeated.key }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const response = await handle(request, { address: () => "127.0.0.1", keepOpen: () => {} });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
  };
  return {
    db,
    webhooks,
    keys,
    ledger,
    logged,
    clock,
    newPostman,
    deliver: async (postman = only) => {
      await postman.tick();
      await postman.idle();
    },
    call,
    idempotency: repeated,
    hook: async (url, more = {}) => {
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
