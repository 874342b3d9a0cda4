// Model calls that were refused before a provider was called, for the log of the console. It owns the table refused_call.
// Refusals are collected in memory and written together, so that none costs a write of its own. Their number is limited per
// account and day, and per process and day, because refusals are free.

import { minIdAt } from "../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { replaceUnsafe } from "../base/text/safe-text.ts";
import { DAY_MS, utcDay } from "../base/time.ts";
import type { RefusedCall } from "../http/finish-response.ts";
import { type Db, integer, type Reader, type Row, text, textOrNull, type Tx } from "../store/db.ts";

export const REFUSALS_PER_DAY_MAX = 500;
/** The limit of all accounts together. Beyond it, the refusals of this process are not recorded until the next day. */
const PROCESS_REFUSALS_PER_DAY_MAX = 50_000;
const RETENTION_MS = 30 * DAY_MS;
const MESSAGE_MAX = 500;
const MODEL_MAX = 200;

export interface RefusedCalls {
  /** Only changes memory. */
  readonly add: (call: RefusedCall) => void;
  readonly flush: () => Promise<void>;
}

export function createRefusedCalls(db: Db): RefusedCalls {
  let day = "";
  let counted = 0;
  const counts = new Map<string, number>();
  let waiting: RefusedCall[] = [];
  return {
    add: (call) => {
      const today = utcDay(call.createdAt);
      if (today !== day) {
        [day, counted] = [today, 0];
        counts.clear();
      }
      const count = counts.get(call.accountId) ?? 0;
      if (count >= REFUSALS_PER_DAY_MAX || counted >= PROCESS_REFUSALS_PER_DAY_MAX) return;
      counts.set(call.accountId, count + 1);
      counted += 1;
      waiting.push(call);
    },
    flush: async () => {
      const calls = waiting;
      waiting = [];
      // Lost if the store fails: a failing store must not fill the memory.
      if (calls.length > 0) await db.write((tx) => insertRefusedCalls(tx, calls));
    },
  };
}

/** Keeps the limit of an account across processes and restarts. */
async function insertRefusedCalls(tx: Tx, calls: readonly RefusedCall[]): Promise<void> {
  const rows: RefusedCall[] = [];
  for (const [accountId, refused] of Map.groupBy(calls, (call) => call.accountId)) {
    const now = refused.at(-1)?.createdAt ?? 0;
    const first = minIdAt("req", now - (now % DAY_MS));
    const row = await tx.get(
      "select count(*) as count from refused_call where account_id = ? and id >= ?",
      [accountId, first],
    );
    const left = REFUSALS_PER_DAY_MAX - (row === undefined ? 0 : integer(row, "count"));
    rows.push(...refused.slice(0, Math.max(0, left)));
  }
  await tx.insertMany(
    "refused_call",
    [
      "account_id:text",
      "id:text",
      "key_id:text",
      "created_at:bigint",
      "path:text",
      "model:text",
      "status:bigint",
      "code:text",
      "message:text",
    ],
    rows.map((call) => [
      call.accountId,
      call.id,
      call.keyId,
      call.createdAt,
      call.path,
      call.model === null ? null : replaceUnsafe(call.model.slice(0, MODEL_MAX)),
      call.status,
      call.code,
      // An error can quote what the caller sent, such as a NUL, which the store cannot keep.
      replaceUnsafe(call.message.slice(0, MESSAGE_MAX)),
    ]),
  );
}

export interface RefusedCallFilter {
  readonly from: number;
  readonly to: number | undefined;
  readonly keyId?: string | undefined;
  readonly status?: number | undefined;
}

/** Newest first. */
export async function listRefusedCalls(
  reader: Reader,
  accountId: string,
  { from, to, keyId, status }: RefusedCallFilter,
  page: PageRequest,
): Promise<Page<RefusedCall>> {
  const conditions = [
    ["created_at < ?", to],
    ["key_id = ?", keyId],
    ["status = ?", status],
  ] as const;
  const given = conditions.filter(([, value]) => value !== undefined);
  const rows = await reader.all(
    `select * from refused_call where account_id = ? and id < ? and id >= ?
     ${given.map(([sql]) => `and ${sql}`).join(" ")} order by id desc limit ?`,
    [
      accountId,
      page.cursor ?? maxId("req"),
      minIdAt("req", from),
      ...given.flatMap(([, value]) => (value === undefined ? [] : [value])),
      page.limit + 1,
    ],
  );
  return toPage(rows.map(toRefusedCall), page.limit);
}

export async function findRefusedCall(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<RefusedCall | undefined> {
  const row = await reader.get("select * from refused_call where account_id = ? and id = ?", [
    accountId,
    id,
  ]);
  return row && toRefusedCall(row);
}

export async function sweepRefusedCalls(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from refused_call where created_at < ?", [now - RETENTION_MS]);
}

function toRefusedCall(row: Row): RefusedCall {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    keyId: text(row, "key_id"),
    createdAt: integer(row, "created_at"),
    path: text(row, "path"),
    model: textOrNull(row, "model"),
    status: integer(row, "status"),
    code: text(row, "code"),
    message: text(row, "message"),
  };
}
