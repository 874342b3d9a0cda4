// Fills a gateway with what a small company has after two months: keys, members, budgets, purchases, webhooks and calls.
// For screenshots and for trying pages by hand.

import { renameAccount } from "../../../src/accounts/accounts.ts";
import { createLog } from "../../../src/base/log.ts";
import { dayStart, monthStart } from "../../../src/base/money/spend-window.ts";
import { DAY_MS } from "../../../src/base/time.ts";
import { creditsOfCents } from "../../../src/billing/invoices/cents.ts";
import { createInvoice } from "../../../src/billing/invoices/invoices.ts";
import { markPaid } from "../../../src/billing/payments/manual-payments.ts";
import { sumByHour } from "../../../src/ledger/call-charges.ts";
import { COMMAND_LINE_ACTOR } from "../../../src/operator/accounts/account-actions.ts";
import { insertUsage } from "../../../src/usage/insert-usage.ts";
import { rollUpUsage } from "../../../src/usage/rollup/roll-up.ts";
import type { UsageRecord } from "../../../src/usage/usage.ts";
import {
  createUser,
  makeDeveloper,
  makeMember,
  makeOwner,
  type TestUser,
} from "../../billing/console-user.ts";
import { createSessions } from "../../browser/console-history.ts";
import { actIn } from "../act.ts";
import { type Gateway, registerAccount, type TestAccount } from "../gateway.ts";
import { backdate, insertWebhooks } from "./demo-history.ts";
import { demoUsage, detailedCall } from "./demo-usage.ts";

export interface Demo {
  readonly account: TestAccount;
  /** A workspace that has no calls yet. */
  readonly emptyAccount: TestAccount;
  readonly owner: TestUser;
  readonly callId: string;
  readonly failedCallId: string;
  readonly webhookId: string;
  /** A key with a limit. */
  readonly keyId: string;
  /** A session of nested agents. */
  readonly sessionId: string;
}

const KEYS = [
  { name: "production" },
  { name: "nightly-eval", limit_usd: 40, limit_window: "month" },
  { name: "ci-bot", limit_usd: 8, allowed_models: ["openai/gpt-5.4-mini"] },
  { name: "laptop of Olga", limit_usd: 10, limit_window: "week" },
] as const;
const PRESETS = {
  reviewer: "You review code. Be brief.",
  "support-reply": "You answer customers of Acme.",
} as const;
/** The last workspace has no name. */
const OTHER_NAMES = ["Lumen Labs", "Harbor Analytics", "Northwind agents", "study-bot"];
const PURCHASES_CENTS = [5_000, 10_000, 10_000, 25_000];
const RECORDS_PER_BATCH = 200;

export async function fillDemo(gateway: Gateway): Promise<Demo> {
  const now = Date.now();
  const account = await registerAccount(gateway);
  const emptyAccount = await registerAccount(gateway);
  const keyIds = await createResources(gateway, account);
  const owner = await createUser(gateway, "olga.lind");
  await buyCredits(gateway, account.id, now);
  const usage = { accountId: account.id, keyIds, now, seed: 7, volume: 1 };
  const detailed = detailedCall(usage);
  const records = [...demoUsage(usage), detailed];
  await insertCalls(gateway, records);
  await createOtherAccounts(gateway, now);
  await rollUpUsage(gateway.server.db);
  await makeOwner(gateway, account.id, owner);
  await makeOwner(gateway, emptyAccount.id, owner);
  await makeDeveloper(gateway, account.id, await createUser(gateway, "dev.patel"));
  await makeMember(gateway, account.id, await createUser(gateway, "finance"), "billing");
  await makeMember(gateway, account.id, await createUser(gateway, "rosa.diaz"), "admin");
  const webhookId = await insertWebhooks(gateway, account.id, now);
  await backdate(gateway, now);
  const sessionId = await createSessions({ gateway, account }, keyIds, now);
  const failed = records.findLast(({ outcome }) => outcome === "upstream_error");
  return {
    account,
    emptyAccount,
    owner,
    callId: detailed.id,
    failedCallId: failed?.id ?? "",
    webhookId,
    keyId: keyIds[1] ?? "",
    sessionId,
  };
}

/** Keys, a budget, a provider key and webhooks, made by the agent before a person claims the account. */
async function createResources(gateway: Gateway, account: TestAccount): Promise<readonly string[]> {
  const send = async (method: string, path: string, body: object): Promise<{ id?: string }> => {
    const response = await fetch(gateway.url + path, {
      method,
      headers: account.headers,
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
    // Safe because only the id is read, and checked for.
    return (await response.json()) as { id?: string };
  };
  await send("PATCH", "/v1/account", { name: "Acme production" });
  await gateway.server.db.write((tx) =>
    tx.run("update api_key set name = 'research-agent' where account_id = ?", [account.id]),
  );
  const keyIds: string[] = [];
  for (const key of KEYS) keyIds.push((await send("POST", "/v1/keys", key)).id ?? "");
  await send("PATCH", "/v1/account/budgets", { daily_usd: 2.5, monthly_usd: 60 });
  for (const [name, system] of Object.entries(PRESETS))
    await send("POST", `/v1/presets/${name}`, {
      model: "anthropic/claude-sonnet-5-5",
      system,
      max_output_tokens: 1_000,
    });
  await send("POST", "/v1/guardrails/no-secrets", {
    type: "patterns",
    entities: ["api_key", "private_key", "email", "credit_card"],
  });
  await send("POST", "/v1/guardrails/policy-check", {
    type: "hook",
    url: "https://policy.acme.example/postern",
    phases: ["output"],
    // No hook is there, and the playground makes calls.
    on_failure: "allow",
  });
  await send("POST", "/v1/mcp-servers/docs", {
    url: "https://mcp.acme.example/mcp",
    allowed_tools: ["search_docs", "read_page"],
  });
  await send("POST", "/v1/keys", {
    name: "deploy (GitHub Actions)",
    limit_usd: 5,
    limit_window: "month",
    scopes: ["models:write"],
    credential: {
      type: "oidc",
      issuer: "https://token.actions.githubusercontent.com",
      subject: "repo:acme/app:ref:refs/heads/main",
    },
  });
  await send("POST", "/v1/provider-keys", {
    provider: "anthropic",
    api_key: "sk-ant-api03-demonstration-only-0000000000",
  });
  return keyIds;
}

async function buyCredits(gateway: Gateway, accountId: string, now: number): Promise<void> {
  const { db } = gateway.server;
  const log = createLog({ level: "error", isPretty: false, now: Date.now, write: () => {} });
  for (const [index, amountCents] of PURCHASES_CENTS.entries()) {
    const at = now - (PURCHASES_CENTS.length - index) * 14 * DAY_MS;
    const { id } = await db.write((tx) =>
      createInvoice(tx, actIn(accountId, at), creditsOfCents(amountCents)),
    );
    const reference = `transfer ${accountId} ${index}`;
    await markPaid({ db, log }, { invoiceId: id, reference, by: COMMAND_LINE_ACTOR, now: at });
  }
  await db.write((tx) => createInvoice(tx, actIn(accountId, now), 250_000_000));
}

/** Inserts finished calls, and charges them to the paid balance and to their keys. */
async function insertCalls(gateway: Gateway, records: readonly UsageRecord[]): Promise<void> {
  const { db } = gateway.server;
  for (let start = 0; start < records.length; start += RECORDS_PER_BATCH) {
    const batch = records.slice(start, start + RECORDS_PER_BATCH);
    await db.write(async (tx) => {
      const calls = batch.map(({ cost, createdAt: at }) => ({
        promo: 0n,
        paid: cost,
        overrun: 0n,
        at,
      }));
      await insertUsage(tx, batch, { calls, hours: sumByHour(calls) });
      const total = batch.reduce((sum, { cost }) => sum + cost, 0n);
      const [first] = batch;
      if (first !== undefined)
        await tx.run("update wallet set paid = paid - ? where account_id = ?", [
          total,
          first.accountId,
        ]);
    });
  }
  await chargeBudgets(gateway, records);
  for (const keyId of new Set(records.map((record) => record.keyId))) {
    const own = records.filter((record) => record.keyId === keyId);
    await chargeKey(gateway, keyId, own);
  }
}

async function chargeBudgets(gateway: Gateway, records: readonly UsageRecord[]): Promise<void> {
  const now = Date.now();
  const [day, month] = [dayStart(now), monthStart(now)];
  const spent = (from: number): bigint =>
    records.reduce((sum, { createdAt, cost }) => (createdAt >= from ? sum + cost : sum), 0n);
  await gateway.server.db.write((tx) =>
    tx.run(
      `update wallet set day_start = ?, day_spent = ?, month_start = ?, month_spent = ?
       where account_id = ? and (day_budget is not null or month_budget is not null)`,
      [day, spent(day), month, spent(month), records[0]?.accountId ?? ""],
    ),
  );
}

async function chargeKey(
  gateway: Gateway,
  keyId: string,
  records: readonly UsageRecord[],
): Promise<void> {
  const now = new Date();
  const month = Date.UTC(now.getUTCFullYear(), now.getUTCMonth());
  const spent = (from: number): bigint =>
    records.reduce((sum, { createdAt, cost }) => (createdAt >= from ? sum + cost : sum), 0n);
  await gateway.server.db.write((tx) =>
    tx.run(
      "update spender set month_start = ?, month_spent = ?, total_spent = ? where key_id = ?",
      [month, spent(month), spent(0), keyId],
    ),
  );
}

/** For the operator's lists and charts. */
async function createOtherAccounts(gateway: Gateway, now: number): Promise<void> {
  for (let index = 0; index < 5; index++) {
    const { id } = await registerAccount(gateway);
    const name = OTHER_NAMES[index];
    if (name !== undefined)
      await gateway.server.db.write((tx) => renameAccount(tx, actIn(id, now), name));
    await buyCredits(gateway, id, now - index * 3 * DAY_MS);
    const volume = 0.2 + index * 0.1;
    await insertCalls(
      gateway,
      demoUsage({ accountId: id, keyIds: [`key_${index}`], now, seed: 20 + index, volume }),
    );
  }
}
