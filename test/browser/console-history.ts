// A month of calls, keys with limits and a failing webhook, so that the console pages have something to show.

import { renameAccount } from "../../src/accounts/accounts.ts";
import { saveStream } from "../../src/activity/audit-stream-rows.ts";
import { newId } from "../../src/base/id.ts";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { markSessionStopped, writeSessions } from "../../src/ledger/session-rows.ts";
import { createDirectoryToken } from "../../src/scim/directory.ts";
import { createGroup, parseGroup, setGroupRole } from "../../src/scim/scim-groups.ts";
import { createUser, parseUser } from "../../src/scim/scim-users.ts";
import { saveConnection } from "../../src/sso/connections.ts";
import { addDomain, recordDomainCheck } from "../../src/sso/domains.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import type { ConsoleFixture } from "../console/console-fixture.ts";
import { actIn } from "../support/act.ts";

const MODELS = [
  ["anthropic/claude-sonnet-5-5", "anthropic", 0.000_003, 0.000_015],
  ["openai/gpt-6-mini", "openai", 0.000_000_4, 0.000_001_6],
  ["google/gemini-4-flash", "google", 0.000_000_3, 0.000_002_5],
  ["mistral/large-3", "mistral", 0.000_002, 0.000_006],
] as const;
const DAYS = 45;

export interface ConsoleHistory {
  /** A call with two attempts, labels, a trace and dropped fields. */
  readonly callId: string;
  /** A key with a limit of which most is spent. */
  readonly keyId: string;
  readonly providerKeyId: string;
  /** A webhook with a delivered and a failed delivery. */
  readonly webhookId: string;
  /** A session with nested agents. */
  readonly sessionId: string;
}

export async function createConsoleHistory(fixture: ConsoleFixture): Promise<ConsoleHistory> {
  const { gateway, account } = fixture;
  const now = Date.now();
  await gateway.server.db.write((tx) =>
    renameAccount(tx, actIn(account.id, Date.now()), "Acme production"),
  );
  const keyIds = await createKeys(fixture);
  const records: UsageRecord[] = [];
  for (let day = 0; day < DAYS; day++)
    for (let call = 0; call < 4 + ((day * 7) % 11); call++) {
      const at = now - day * DAY_MS - ((call * 137) % 23) * HOUR_MS - 60_000 * (call + 1);
      records.push(usageRecord(account.id, keyIds, { seed: day * 13 + call * 5, at }));
    }
  await gateway.server.db.write((tx) => insertUsage(tx, records));
  const shown = usageRecord(account.id, keyIds, { seed: 3, at: now - 30_000 });
  const detailed: UsageRecord = {
    ...shown,
    labels: ["job=nightly", "team=search"],
    dropped: ["seed", "logit_bias"],
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
    attempts: [
      { provider: "openai", model: shown.model, status: 529, ms: 212 },
      { provider: shown.provider, model: shown.model, status: 200, ms: 1_804 },
    ],
  };
  await gateway.server.db.write((tx) => insertUsage(tx, [detailed]));
  const webhookId = await createWebhook(fixture, now);
  const sessionId = await createSessions(fixture, keyIds, now);
  const providerKeyId = await addProviderKey(fixture, keyIds);
  await setUpSso(fixture);
  return { callId: detailed.id, keyId: keyIds[0] ?? "", providerKeyId, webhookId, sessionId };
}

/** A verified domain, a long one without a record, and an identity provider. */
async function setUpSso({ gateway, account }: ConsoleFixture): Promise<void> {
  const act = actIn(account.id, Date.now());
  const long = `${"subsidiary-with-a-long-name.".repeat(4)}example.com`;
  const master = loadMasterSecret(gateway.config, gateway.config.store.dataDir);
  const settings = {
    issuer: "https://acme.okta.com",
    clientId: "0oa5x3kq9wPOSTERN357",
    clientSecret: "a client secret",
    defaultRole: "developer",
  } as const;
  await gateway.server.db.write(async (tx) => {
    await addDomain(tx, act, "acme.example");
    await addDomain(tx, act, long);
    await recordDomainCheck(tx, act, { domain: "acme.example", state: "found" });
    await saveConnection(tx, act, settings, { master, allowLoopback: false });
    await createDirectoryToken(tx, act);
    const stream = { kind: "otlp", url: "https://otlp.acme.example/v1/logs" } as const;
    await saveStream(tx, account.id, { ...stream, headerName: null, sealed: null }, act.now);
    const users = ["ada@acme.example", `${"a-long-name-".repeat(5)}@acme.example`].map((email) =>
      parseUser({ userName: email, displayName: "Ada Lovelace" }),
    );
    for (const user of users) await createUser(tx, act, user);
    for (const displayName of ["Engineering", `${"Subsidiary ".repeat(8)}administrators`]) {
      const group = await createGroup(tx, act, parseGroup({ displayName }));
      await setGroupRole(tx, act, { id: group.id, role: "developer" });
    }
  });
}

/** Sessions with long and short ids; the first has agents below agents. */
export async function createSessions(
  { gateway, account }: Pick<ConsoleFixture, "gateway" | "account">,
  keyIds: readonly string[],
  now: number,
): Promise<string> {
  const sessionId = "5b0c8e1e-9d7f-4a57-8f0d-6a4b1f2c3d4e";
  const agents = [
    [],
    ["agent=code-reviewer@team"],
    ["agent=test-runner", "parent_agent=code-reviewer@team"],
    ["agent=log-reader", "parent_agent=test-runner"],
    ["agent=researcher"],
  ];
  const calls = [...agents, ...agents.slice(0, 3)].map((labels, index): UsageRecord => {
    const at = now - (index + 1) * 60_000;
    const record = usageRecord(account.id, keyIds, { seed: index * 17 + 2, at });
    return { ...record, labels: [...labels, `session=${sessionId}`].toSorted() };
  });
  const spent = calls.reduce((sum, { cost }) => sum + cost, 0n);
  const session = { keyId: keyIds[0] ?? "", createdAt: now - HOUR_MS, lastCallAt: now, held: 0n };
  const rows = [
    { id: sessionId, session: { ...session, limit: 5_000_000_000n, spent, stoppedAt: null } },
    {
      id: "nightly-42",
      session: { ...session, limit: undefined, spent: 120_000n, stoppedAt: null },
    },
  ].map((row) => ({ ...row, accountId: account.id }));
  await gateway.server.db.write(async (tx) => {
    await insertUsage(tx, calls);
    await writeSessions(tx, rows);
    await markSessionStopped(tx, account.id, "nightly-42", now);
  });
  return sessionId;
}

/** Inserted, because adding one calls the provider. */
async function addProviderKey(
  { gateway, account }: ConsoleFixture,
  keyIds: readonly string[],
): Promise<string> {
  const now = Date.now();
  const id = newId("pk", now);
  await gateway.server.db.write((tx) =>
    tx.run(
      `insert into provider_key (id, account_id, provider, name, last4, status, sealed, data_key, created_at, api_key_ids, allow_store)
       values (?, ?, 'openai', 'team', '0000', 'active', 'none', 'none', ?, ?, ?)`,
      [id, account.id, now, keyIds.join(" "), 0],
    ),
  );
  return id;
}

async function createWebhook({ gateway, account }: ConsoleFixture, now: number): Promise<string> {
  const response = await fetch(`${gateway.url}/v1/webhooks`, {
    method: "POST",
    headers: account.headers,
    // Subscribed to an event that does not happen here, so that nothing is sent.
    body: JSON.stringify({ url: "http://127.0.0.1:9/hook", events: ["top_up.stopped"] }),
  });
  const { id } = (await response.json()) as { readonly id: string };
  await gateway.server.db.write(async (tx) => {
    for (const [status, code, error] of [
      ["delivered", 200, null],
      ["failed", 503, "the endpoint answered 503"],
    ] as const) {
      const eventId = newId("evt", now);
      const attempt = { at: now - HOUR_MS, durationMs: 84, status: code, error, response: "busy" };
      await tx.run(
        "insert into event (id, account_id, type, created_at, data) values (?, ?, 'balance.low', ?, '{}')",
        [eventId, account.id, now],
      );
      await tx.run(
        `insert into webhook_delivery (id, webhook_id, account_id, event_id, status, tries, due_at, attempts, created_at)
         values (?, ?, ?, ?, ?, 1, ?, ?, ?)`,
        [newId("dlv", now), id, account.id, eventId, status, now, JSON.stringify([attempt]), now],
      );
    }
  });
  return id;
}

async function createKeys({ gateway, account }: ConsoleFixture): Promise<readonly string[]> {
  const keys = [
    { name: "nightly-eval", limit_usd: 20, limit_window: "month" },
    { name: "production" },
    { name: "ci-bot", limit_usd: 5 },
  ];
  const ids: string[] = [];
  for (const key of keys) {
    const response = await fetch(`${gateway.url}/v1/keys`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify(key),
    });
    const { id } = (await response.json()) as { readonly id: string };
    ids.push(id);
  }
  await gateway.server.db.write((tx) =>
    tx.run("update spender set month_spent = ?, total_spent = ? where key_id = ?", [
      18_400_000_000n,
      18_400_000_000n,
      ids[0] ?? "",
    ]),
  );
  return ids;
}

function usageRecord(
  accountId: string,
  keyIds: readonly string[],
  { seed, at }: { readonly seed: number; readonly at: number },
): UsageRecord {
  const [model, provider, input, output] =
    MODELS[seed % 7 < 3 ? 0 : seed % MODELS.length] ?? MODELS[0];
  const inputTokens = 800 + ((seed * 977) % 20_000);
  const cached = seed % 3 === 0 ? Math.floor(inputTokens / 2) : 0;
  const outputTokens = 50 + ((seed * 331) % 900);
  const isFailed = seed % 29 === 7;
  const cost =
    BigInt(Math.round(((inputTokens - cached) * input + outputTokens * output) * 1e9)) +
    BigInt(Math.round(cached * input * 1e8));
  return {
    id: newId("req", at),
    accountId,
    keyId: keyIds[seed % keyIds.length] ?? "",
    createdAt: at,
    model,
    provider,
    api: seed % 2 === 0 ? "messages" : "chat",
    stream: seed % 2 === 0,
    outcome: isFailed ? "upstream_error" : seed % 31 === 5 ? "client_aborted" : "completed",
    status: isFailed ? 502 : 200,
    inputTokens,
    cacheReadTokens: cached,
    cacheWriteTokens: 0,
    outputTokens: isFailed ? 0 : outputTokens,
    reasoningTokens: seed % 5 === 0 ? 40 : 0,
    price: [
      { meter: "input", count: inputTokens - cached, usd: input.toFixed(12).replace(/0+$/, "") },
      { meter: "cache_read", count: cached, usd: (input / 10).toFixed(12).replace(/0+$/, "") },
      { meter: "output", count: outputTokens, usd: output.toFixed(12).replace(/0+$/, "") },
    ].filter(({ count }) => count > 0),
    attempts: [{ provider, model, status: isFailed ? 502 : 200, ms: 400 + ((seed * 53) % 2_000) }],
    cost: isFailed ? 0n : cost,
    byok: false,
    exact: true,
    latencyMs: 450 + ((seed * 53) % 2_000),
    firstTokenMs: seed % 2 === 0 ? 180 + ((seed * 17) % 700) : null,
    labels: seed % 4 === 0 ? ["team=search"] : [],
  };
}
