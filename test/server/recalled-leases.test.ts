// Two gateways in processes of their own on one PostgreSQL. One decides the calls of a busy key on a credit lease. If the key or its
// account is restricted over the other one, no call starts after the response, although the first one has free credits. If the other
// one needs the credits, it gets them.

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
import { withModels } from "../inference/support/models-file.ts";
import { call, type Json, textAt } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount, type TestAccount } from "../support/gateway.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";

/** 10,000 tokens cost 0.10 US dollars. */
const MODEL = {
  id: "sim/dime",
  wires: ["chat"],
  context_length: 1_000_000,
  max_output_tokens: 100_000,
  pricing: { tokens: { input: "0", output: "10" } },
};
const DIME = bodyOf("chat", "hello", { model: MODEL.id, max_tokens: 10_000 });
const CALLS_AT_ONCE = 12;
const LATE_CALLS = 8;

let gate: GatedSimulator;
let store: TestStore;
let calling: GatewayProcess;
let changing: GatewayProcess;

beforeAll(async () => {
  gate = startGatedSimulator();
  store = await openStore("postgres");
  const models = withModels([MODEL]);
  const start = (name: string): Promise<GatewayProcess> =>
    startGatewayProcessOnFreePort({
      POSTERN_SECRET: "the secret of two gateways with credit leases",
      POSTERN_PROCESS_NAME: name,
      DATABASE_URL: store.location.address,
      SIM_BASE_URL: gate.url,
      SIM_API_KEY: "upstream-test-key",
      ...models,
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

function postFrom(
  gateway: GatewayProcess,
  { caller }: BusyKey,
  body = bodyOf("chat", "hello"),
): Promise<Response> {
  return postCall(gateway, caller, "chat", body);
}

/** A call that waits for its provider, so that the lease on which it was decided is not returned. */
async function openCallOnLease(
  key: BusyKey,
  body?: Json,
): Promise<{ readonly response: Promise<Response> }> {
  return await eventually(async () => {
    gate.open();
    const before = Array.from({ length: CALLS_AT_ONCE }, () => postFrom(calling, key, body));
    for (const response of await Promise.all(before)) await response.text();
    gate.close();
    const response = postFrom(calling, key, body);
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

test("a process that was suspended during the revocation starts no call on its lease", async () => {
  const key = await createBusyKey();
  const { response } = await openCallOnLease(key);
  calling.suspend();
  // They arrive before the process can learn of the revocation.
  const late = Array.from({ length: LATE_CALLS }, () => postFrom(calling, key));
  await requestOf("DELETE /v1/keys/{id}")(key, store.db);
  calling.resume();
  const codes = await Promise.all(
    late.map(async (refused) => errorOf(await (await refused).json())["code"]),
  );
  expect(new Set(codes)).toEqual(new Set(["invalid_api_key"]));
  gate.open();
  expect((await response).status).toBe(200);
  await expectSettledLedger(store.db);
});

test("a reply is not shortened by what another process has leased", async () => {
  const key = await createBusyKey();
  const { response } = await openCallOnLease(key, DIME);
  const { max_tokens: _, ...unlimited } = DIME;
  const whole = postFrom(changing, key, unlimited);
  await eventually(() => gate.waiting() === 2);
  gate.open();
  expect([(await response).status, (await whole).status]).toEqual([200, 200]);
  await (await whole).text();
  const requests = await fetch(`${gate.url}/sim/requests?limit=2`);
  const { data } = (await requests.json()) as {
    readonly data: readonly { readonly body: string }[];
  };
  const limits = data.map(({ body }) => {
    const sent = JSON.parse(body) as Json;
    return Number(sent["max_tokens"] ?? sent["max_completion_tokens"]);
  });
  // The open call holds 0.10 of the 1 US dollar, and the lease has held half of it.
  expect(Math.max(...limits)).toBeGreaterThan(80_000);
  await expectSettledLedger(store.db);
});

test("a batch gets the credits that another process has leased", async () => {
  const key = await createBusyKey();
  const { response } = await openCallOnLease(key, DIME);
  const items = Array.from({ length: 8 }, (_, index) => ({ custom_id: `${index}`, body: DIME }));
  const { status } = await call(changing, "POST /v1/batches", {
    key: key.account.key,
    body: { endpoint: "/v1/chat/completions", requests: items },
  });
  expect(status).toBe(200);
  gate.open();
  await (await response).text();
  await expectSettledLedger(store.db);
});
