// Two gateways in processes of their own on one PostgreSQL. One decides the calls of a busy key on a credit lease, and over the other
// one the key or its account is restricted. After the response to that, no call starts, although the first one has free credits.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { LEASE_STATE } from "../../src/ledger/credit-lease.ts";
import { grant } from "../../src/ledger/ledger.ts";
import { COMMAND_LINE_ACTOR, freezeAccount } from "../../src/operator/accounts/account-actions.ts";
import type { Db } from "../../src/store/db.ts";
import { type GatedSimulator, startGatedSimulator } from "../inference/support/gated-simulator.ts";
import {
  type GatewayProcess,
  startGatewayProcessOnFreePort,
} from "../inference/support/gateway-process.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  postCall,
  USD,
} from "../inference/support/harness.ts";
import { call, type Json, textAt } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount, type TestAccount } from "../support/gateway.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";

const CALLS_AT_ONCE = 12;
const LATE_CALLS = 8;

let gate: GatedSimulator;
let store: TestStore;
let calling: GatewayProcess;
let changing: GatewayProcess;

beforeAll(async () => {
  gate = startGatedSimulator();
  store = await openStore("postgres");
  const start = (name: string): Promise<GatewayProcess> =>
    startGatewayProcessOnFreePort({
      POSTERN_SECRET: "the secret of two gateways with credit leases",
      POSTERN_PROCESS_NAME: name,
      POSTERN_CREDIT_LEASES: "on",
      DATABASE_URL: store.location.address,
      SIM_BASE_URL: gate.url,
      SIM_API_KEY: "upstream-test-key",
    });
  [calling, changing] = await Promise.all([start("calling"), start("changing")]);
});
afterAll(async () => {
  await Promise.all([calling.stop(), changing.stop()]);
  await store.close();
  await gate.stop();
});

interface BusyKey {
  readonly id: string;
  readonly caller: TestAccount;
  readonly account: TestAccount;
}

async function createBusyKey(): Promise<BusyKey> {
  const account = await registerAccount(changing);
  const { id: accountId } = account;
  const gift = { id: `gift.${accountId}`, accountId, amount: USD, now: Date.now(), reason: "test" };
  await store.db.write((tx) => grant(tx, gift));
  const { body } = await call(changing, "POST /v1/keys", { key: account.key, body: {} });
  const key = textAt(body, "api_key");
  const headers = { ...account.headers, authorization: `Bearer ${key}` };
  return { id: textAt(body, "id"), caller: { id: accountId, key, headers }, account };
}

function postFrom(gateway: GatewayProcess, { caller }: BusyKey): Promise<Response> {
  return postCall(gateway, caller, "chat", bodyOf("chat", "hello"));
}

/** A call that waits for its provider, so that the lease on which it was decided is not returned. */
async function openCallOnLease(key: BusyKey): Promise<{ readonly response: Promise<Response> }> {
  return await eventually(async () => {
    gate.open();
    const before = Array.from({ length: CALLS_AT_ONCE }, () => postFrom(calling, key));
    for (const response of await Promise.all(before)) await response.text();
    gate.close();
    const response = postFrom(calling, key);
    await eventually(() => gate.waiting() === 1);
    const holds = await store.db.all("select lease from hold where key_id = ?", [key.id]);
    if (holds.length === 1 && Number(holds[0]?.["lease"]) === LEASE_STATE.open) return { response };
    gate.open();
    await (await response).text();
    return undefined;
  });
}

type Restrict = (key: BusyKey, db: Db) => Promise<unknown>;

function requestOf(line: string, body?: Json): Restrict {
  return async ({ id, account }) => {
    const { status } = await call(changing, line.replace("{id}", id), {
      key: account.key,
      ...(body !== undefined && { body }),
    });
    expect(status).toBe(200);
  };
}

const freeze: Restrict = ({ account }, db) =>
  db.write((tx) =>
    freezeAccount(tx, {
      accountId: account.id,
      by: COMMAND_LINE_ACTOR,
      reason: "test",
      network: null,
      now: Date.now(),
    }),
  );

test.each<[string, string, Restrict]>([
  ["its key was revoked", "invalid_api_key", requestOf("DELETE /v1/keys/{id}")],
  [
    "the limit of its key was lowered to 0",
    "key_limit_reached",
    requestOf("PATCH /v1/keys/{id}", { limit_usd: 0 }),
  ],
  [
    "its key was restricted to other models",
    "forbidden",
    requestOf("PATCH /v1/keys/{id}", { allowed_models: ["openai/*"] }),
  ],
  [
    "the budget was lowered",
    "workspace_budget_reached",
    requestOf("PATCH /v1/account/budgets", { daily_usd: 0 }),
  ],
  ["the account was closed", "workspace_frozen", requestOf("DELETE /v1/account")],
  ["the operator froze the account", "workspace_frozen", freeze],
])("no call starts on a lease after %s", async (_, code, restrict) => {
  const key = await createBusyKey();
  const { response } = await openCallOnLease(key);
  await restrict(key, store.db);
  let refusals = 0;
  const late = Array.from({ length: LATE_CALLS }, async (__, index) => {
    const refused = await postFrom(index % 2 === 0 ? calling : changing, key);
    refusals += 1;
    return errorOf(await refused.json())["code"];
  });
  await eventually(() => refusals === LATE_CALLS || gate.waiting() > 1);
  gate.open();
  expect(new Set(await Promise.all(late))).toEqual(new Set([code]));
  const { status } = await response;
  expect(status).toBe(200);
  await expectSettledLedger(store.db);
});
