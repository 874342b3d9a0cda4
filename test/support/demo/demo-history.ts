// Gives the workspaces of the demonstration a past: dates, and webhooks with their deliveries.

import type { EventType } from "../../../src/activity/events.ts";
import { newId } from "../../../src/base/id.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../src/base/time.ts";
import { integer, text, type Tx } from "../../../src/store/db.ts";
import type { Gateway } from "../gateway.ts";

const WEBHOOKS = [
  {
    host: "hooks.acme.example",
    events: "balance.low budget.reached invoice.paid key.limit_reached member.added",
    description: "Alerts to the on-call channel",
  },
  {
    host: "billing.acme.example",
    events: "invoice.paid top_up.failed",
    description: "Books invoices",
  },
] as const;

/** The events that were delivered, newest first, and how often each failed before. */
const DELIVERIES: readonly (readonly [type: EventType, hoursAgo: number, failures: number])[] = [
  ["budget.reached", 3, 0],
  ["key.limit_reached", 9, 0],
  ["member.added", 20, 1],
  ["budget.reached", 51, 0],
  ["balance.low", 74, 2],
  ["invoice.paid", 75, 0],
  ["budget.reached", 98, 0],
  ["budget.reached", 122, 0],
  ["key.limit_reached", 147, 0],
  ["member.added", 171, 0],
  ["invoice.paid", 190, 4],
];
const ATTEMPTS_MAX = 4;

/** Inserted, because these hosts do not exist. Returns the id of the first. */
export async function insertWebhooks(
  gateway: Gateway,
  accountId: string,
  now: number,
): Promise<string> {
  return await gateway.server.db.write(async (tx) => {
    const ids: string[] = [];
    for (const { host, events, description } of WEBHOOKS) {
      const id = newId("whk", now - 50 * DAY_MS);
      ids.push(id);
      await tx.run(
        `insert into webhook (id, account_id, url, events, description, status, former_until, created_at)
         values (?, ?, ?, ?, ?, 'active', 0, ?)`,
        [id, accountId, `https://${host}/postern`, events, description, now - 50 * DAY_MS],
      );
    }
    const [first = "", second = ""] = ids;
    for (const [type, hoursAgo, failures] of DELIVERIES) {
      const delivery = { accountId, type, at: now - hoursAgo * HOUR_MS, failures };
      await insertDelivery(tx, { ...delivery, webhookId: first });
      if (type === "invoice.paid")
        await insertDelivery(tx, { ...delivery, webhookId: second, failures: 0 });
    }
    return first;
  });
}

interface DemoDelivery {
  readonly accountId: string;
  readonly webhookId: string;
  readonly type: EventType;
  readonly at: number;
  readonly failures: number;
}

async function insertDelivery(
  tx: Tx,
  { accountId, webhookId, type, at, failures }: DemoDelivery,
): Promise<void> {
  const eventId = newId("evt", at);
  const isFailed = failures >= ATTEMPTS_MAX;
  const attempts = Array.from({ length: Math.min(failures + 1, ATTEMPTS_MAX) }, (_, index) => ({
    at: at + index * 5 * MINUTE_MS,
    durationMs: 64 + index * 31,
    status: index < failures ? 503 : 200,
    error: index < failures ? "the endpoint responded with 503" : null,
    response: index < failures ? "Service Unavailable" : "ok",
  }));
  await tx.run(
    "insert into event (id, account_id, type, created_at, data) values (?, ?, ?, ?, '{}')",
    [eventId, accountId, type, at],
  );
  await tx.run(
    `insert into webhook_delivery (id, webhook_id, account_id, event_id, status, tries, due_at, attempts, created_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      newId("dlv", at),
      webhookId,
      accountId,
      eventId,
      isFailed ? "failed" : "delivered",
      attempts.length,
      at,
      JSON.stringify(attempts),
      at,
    ],
  );
}

/** What happened during the fill happened two months ago, except for invoices, which have dates. */
export async function backdate(gateway: Gateway, now: number): Promise<void> {
  const start = now - 60 * DAY_MS;
  await gateway.server.db.write(async (tx) => {
    for (const [table, column] of [
      ["account", "created_at"],
      ["api_key", "created_at"],
      ["membership", "added_at"],
    ] as const)
      await tx.run(`update ${table} set ${column} = ${column} - ?`, [60 * DAY_MS]);
    await tx.run("update account set claimed_at = claimed_at - ?", [59 * DAY_MS]);
    await tx.run("update transfer set at = ? where kind = 'grant'", [start]);
    await tx.run(
      "update api_key set last_used_at = (select max(created_at) from usage_record where usage_record.key_id = api_key.id)",
      [],
    );
    const entries = await tx.all("select id, action, at from audit order by id", []);
    for (const [index, entry] of entries.entries()) {
      const isDated = text(entry, "action").startsWith("invoice.");
      const at = isDated ? integer(entry, "at") : start + index * 7 * MINUTE_MS;
      await tx.run("update audit set id = ?, at = ? where id = ?", [
        newId("aud", at),
        at,
        text(entry, "id"),
      ]);
    }
  });
}
