// Helpers of the model call tests: credits, calls, and what the store has recorded of them.

import { expect } from "bun:test";
import { grant } from "../../../src/ledger/ledger.ts";
import { adjust } from "../../../src/ledger/payments/adjustments.ts";
import { type Db, type Row, integer } from "../../../src/store/db.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { pauseBetweenChecks } from "../../support/eventually.ts";
import type { TestAccount, Gateway } from "../../support/gateway.ts";

export type Api = "chat" | "responses" | "messages" | "embeddings";

export const PATHS: Readonly<Record<Api, `/${string}`>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
  embeddings: "/v1/embeddings",
};

export const STREAMED_APIS = ["chat", "responses", "messages"] as const;

export type Json = Record<string, unknown>;

/** A minimal body of each API with this prompt. */
export function bodyOf(api: Api, text: string, more: Json = {}): Json {
  const model = api === "embeddings" ? "sim/embed" : "sim/echo";
  switch (api) {
    case "chat":
      return { model, messages: [{ role: "user", content: text }], max_tokens: 200, ...more };
    case "messages":
      return { model, messages: [{ role: "user", content: text }], max_tokens: 200, ...more };
    case "responses":
      return { model, input: text, max_output_tokens: 200, ...more };
    case "embeddings":
      return { model, input: text, ...more };
  }
}

type Target = Pick<Gateway, "url">;

/** An account, and the signal that aborts its call. */
export interface Caller extends TestAccount {
  readonly signal?: AbortSignal;
}

export function withHeaders(
  account: TestAccount,
  headers: Readonly<Record<string, string>>,
): TestAccount {
  return { ...account, headers: { ...account.headers, ...headers } };
}

export function postCall(target: Target, caller: Caller, api: Api, body: Json): Promise<Response> {
  return fetch(target.url + PATHS[api], {
    method: "POST",
    headers: caller.headers,
    body: JSON.stringify(body),
    ...(caller.signal === undefined ? {} : { signal: caller.signal }),
  });
}

/** Whether a stream of this API has its terminal event. */
export function isCompleteStream(api: Api, text: string): boolean {
  switch (api) {
    case "chat":
      return text.trimEnd().endsWith("data: [DONE]");
    case "messages":
      return text.includes("event: message_stop");
    case "responses":
      return (
        text.includes("event: response.completed") || text.includes("event: response.incomplete")
      );
    case "embeddings":
      return false;
  }
}

/** The error object of any API. */
export function errorOf(body: unknown): Json {
  const { error } = body as { error: Json };
  return error;
}

/** Expects the error envelope that the API's official client reads. */
export function expectEnvelope(api: Api, body: unknown): void {
  const { message, type, code } = errorOf(body);
  expect([typeof message, typeof type, typeof code]).toEqual(["string", "string", "string"]);
  if (api === "messages") {
    const { type: outer, request_id: requestId } = body as Json;
    expect([outer, typeof requestId]).toEqual(["error", "string"]);
  }
}

let grants = 0;

/** `amount` in nano-USD. */
export async function grantCredits(
  gateway: Gateway,
  account: Pick<TestAccount, "id">,
  amount: bigint,
): Promise<void> {
  grants += 1;
  const id = `test.grant.${account.id}.${grants}`;
  await gateway.server.db.write((tx) =>
    grant(tx, { id, accountId: account.id, amount, now: Date.now(), reason: "test" }),
  );
}

/** Adds paid credit, which an account otherwise has after a purchase; `amount` in nano-USD. */
export async function addPaidCredits(
  gateway: Gateway,
  account: Pick<TestAccount, "id">,
  amount: bigint,
): Promise<void> {
  grants += 1;
  const id = `test.paid.${account.id}.${grants}`;
  await gateway.server.db.write((tx) =>
    adjust(tx, {
      id,
      accountId: account.id,
      amount,
      bucket: "paid",
      now: Date.now(),
      reason: "test",
    }),
  );
}

export const USD = 1_000_000_000n;

export async function readWallet(
  db: Db,
  accountId: string,
): Promise<{ promo: bigint; paid: bigint; held: bigint }> {
  const row = await db.get(
    "select cast(promo as text) as promo, cast(paid as text) as paid, cast(held as text) as held from wallet where account_id = ?",
    [accountId],
  );
  return {
    promo: BigInt(String(row?.["promo"])),
    paid: BigInt(String(row?.["paid"])),
    held: BigInt(String(row?.["held"])),
  };
}

export async function usageRecordsOf(db: Db, accountId: string): Promise<Row[]> {
  return [
    ...(await db.all("select * from usage_record where account_id = ? order by id", [accountId])),
  ];
}

export async function usageRecordOf(db: Db, id: string | null): Promise<Row> {
  const row = await db.get("select * from usage_record where id = ?", [id ?? ""]);
  if (row === undefined) throw new Error(`no usage record ${id}`);
  return row;
}

export async function countOpenHolds(db: Db): Promise<number> {
  const row = await db.get("select count(*) as count from hold", []);
  return row === undefined ? 0 : integer(row, "count");
}

/** Polls until `isDone`; throws with the last value after `ms`. */
export async function waitUntil<T>(
  read: () => T | Promise<T>,
  isDone: (value: T) => boolean,
  ms = 180_000,
): Promise<T> {
  const started = Bun.nanoseconds();
  for (;;) {
    const value = await read();
    if (isDone(value)) return value;
    const waitedMs = (Bun.nanoseconds() - started) / 1e6;
    if (waitedMs > ms)
      throw new Error(
        `still ${JSON.stringify(value, (_, member: unknown) => (typeof member === "bigint" ? String(member) : member))}`,
      );
    await pauseBetweenChecks(waitedMs);
  }
}

/** Waits until nothing is held, and expects a consistent ledger. */
export async function expectSettledLedger(db: Db): Promise<void> {
  await waitUntil(
    () => countOpenHolds(db),
    (count) => count === 0,
  );
  const { problems } = await verifyLedger(db);
  expect(problems).toEqual([]);
}

export interface SimStats {
  readonly requests: number;
  readonly open_streams: number;
  readonly aborted_streams: number;
  readonly completed_streams: number;
}

export async function simStats(gateway: Gateway): Promise<SimStats> {
  return (await (await fetch(`${gateway.simulatorUrl}/sim/stats`)).json()) as SimStats;
}

/** Ends the wait of all replies with `[[sim: wait=name]]`, also of later ones. */
export async function releaseReplies(
  { simulatorUrl }: Pick<Gateway, "simulatorUrl">,
  name: string,
): Promise<void> {
  await fetch(`${simulatorUrl}/sim/release?wait=${name}`, { method: "POST" });
}

/** Waits until so many of the calls have responses, and ends the wait of the replies of the others. */
export async function releaseAfter<R>(
  gateway: Pick<Gateway, "simulatorUrl">,
  name: string,
  { calls, responses }: { readonly calls: readonly Promise<R>[]; readonly responses: number },
): Promise<readonly R[]> {
  let ended = 0;
  const count = () => (ended += 1);
  for (const call of calls) void call.then(count, count);
  await waitUntil(
    () => ended,
    () => ended >= responses,
  );
  await releaseReplies(gateway, name);
  return await Promise.all(calls);
}

/** The last request that the simulator received. */
export async function lastSimulatorRequest(
  gateway: Gateway,
): Promise<{ path: string; headers: Record<string, string>; body: string }> {
  const list = (await (await fetch(`${gateway.simulatorUrl}/sim/requests?limit=1`)).json()) as {
    data: [{ path: string; headers: Record<string, string>; body: string }];
  };
  return list.data[0];
}
