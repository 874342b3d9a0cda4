import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  type ApiResponse,
  valueAt,
  call,
  chat,
  createFakeClock,
  expectError,
  listAt,
  textAt,
} from "./api-client.ts";

const KEYS = 45;

describe.each(STORE_KINDS)("pagination on %s", (store) => {
  const clock = createFakeClock();
  let gateway: Gateway;
  let account: TestAccount;
  /** Newest first. */
  const ids: string[] = [];

  beforeAll(async () => {
    gateway = await startGateway({ store, now: clock.now });
    account = await registerAccount(gateway);
    const first = await call(gateway, "GET /v1/keys", { key: account.key });
    ids.push(textAt(first.body, "data.0.id"));
    for (let made = 1; made < KEYS; made++) {
      // Some are created in the same millisecond.
      if (made % 3 === 0) clock.advance(1);
      const { body } = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
      ids.push(textAt(body, "id"));
    }
    ids.sort().reverse();
  });
  afterAll(() => gateway.stop());

  const list = (query: string, line = "/v1/keys"): Promise<ApiResponse> =>
    call(gateway, `GET ${line}${query}`, { key: account.key });
  const idsOf = ({ body }: ApiResponse): readonly string[] =>
    listAt(body, "data").map(({ id }) => String(id));

  async function walk(
    limit: number,
    between: () => Promise<void> = async () => {},
  ): Promise<string[]> {
    const found: string[] = [];
    let query = `?limit=${limit}`;
    for (;;) {
      const page = await list(query);
      found.push(...idsOf(page));
      const next = valueAt(page.body, "next_cursor");
      expect(valueAt(page.body, "has_more")).toBe(next !== null);
      if (typeof next !== "string") return found;
      query = `?limit=${limit}&cursor=${next}`;
      await between();
    }
  }

  test("returns 20 records by default, with has_more", async () => {
    const { body } = await list("");
    expect(listAt(body, "data").length).toBe(20);
    expect(body).toMatchObject({ object: "list", has_more: true, next_cursor: ids[19] });
  });

  test.each([1, 2, 7, 20, 44, 45, 46, 100])(
    "returns the complete list in pages of %i, newest first",
    async (limit) => {
      expect(await walk(limit)).toEqual(ids);
    },
  );

  test("returns has_more false on a full last page", async () => {
    const { body } = await list(`?limit=${KEYS}`);
    expect(body).toMatchObject({ has_more: false, next_cursor: null });
  });

  test("is not affected by records created in between", async () => {
    const before = [...ids];
    const found = await walk(10, async () => {
      clock.advance(1);
      const { body } = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
      ids.unshift(textAt(body, "id"));
    });
    expect(found).toEqual(before);
  });

  test("accepts the cursor of a revoked record", async () => {
    const page = await list("?limit=5");
    const next = textAt(page.body, "next_cursor");
    await call(gateway, `DELETE /v1/keys/${next}`, { key: account.key });
    expect(idsOf(await list(`?limit=5&cursor=${next}`))).toEqual(ids.slice(5, 10));
  });

  test("accepts a limit of 1 to 100", async () => {
    for (const limit of [
      "0",
      "101",
      "-1",
      "1.5",
      "",
      "ten",
      "NaN",
      "1e9",
      "1e1",
      "0x10",
      "0b11",
      "+5",
      "5.0",
      "%20",
      "９",
      "1,2",
      "[]",
    ]) {
      const response = await list(`?limit=${limit}`);
      expectError(response, { status: 400, code: "invalid_request", param: "limit" });
      expectStatus("listKeys", 400, response);
    }
  });

  test("rejects an invalid cursor and names it", async () => {
    for (const cursor of ["x", "", "key_", "0", ids[0]?.toUpperCase(), `${ids[0]}x`, "' or 1=1"])
      expectError(await list(`?cursor=${cursor}`), {
        status: 400,
        code: "invalid_request",
        param: "cursor",
      });
  });

  test("rejects the cursor of another list", async () => {
    const other = `req_${(ids[0] ?? "").slice(4)}`;
    expectError(await list(`?cursor=${other}`), {
      status: 400,
      code: "invalid_request",
      param: "cursor",
    });
    for (const line of [
      "/v1/usage",
      "/v1/provider-keys",
      "/v1/audit",
      "/v1/events",
      "/v1/webhooks",
      "/v1/billing/invoices",
    ])
      expectError(await list(`?cursor=${ids[0]}`, line), {
        status: 400,
        code: "invalid_request",
        param: "cursor",
      });
  });

  test("lists only own records with a cursor of another account", async () => {
    const otherAccount = await registerAccount(gateway);
    const { body } = await call(gateway, `GET /v1/keys?cursor=${ids[0]}`, {
      key: otherAccount.key,
    });
    expect(listAt(body, "data").map(({ id }) => id)).not.toContain(ids[1]);
  });

  test("rejects repeated and unknown query parameters", async () => {
    for (const query of ["?limit=1&limit=2", "?page=2", "?Limit=2", "?limit=1&__proto__=2"])
      expectError(await list(query), { status: 400, code: "invalid_request" });
  });

  test("works for usage records, and for CSV with x-next-cursor", async () => {
    for (let made = 0; made < 5; made++) {
      clock.advance(1);
      await chat(gateway, account.key);
    }
    const all = idsOf(await list("", "/v1/usage"));
    expect(all.length).toBe(5);
    const first = await list("?limit=2", "/v1/usage");
    const next = textAt(first.body, "next_cursor");
    expect(idsOf(await list(`?limit=3&cursor=${next}`, "/v1/usage"))).toEqual(all.slice(2));
    const csv = await call(gateway, `GET /v1/usage?cursor=${next}`, {
      key: account.key,
      headers: { accept: "text/csv" },
    });
    expect(
      csv.text
        .trim()
        .split("\r\n")
        .slice(1)
        .map((line) => line.split(",")[0]),
    ).toEqual(all.slice(2));
    expect(csv.headers.get("x-next-cursor")).toBeNull();
  });

  test("limits CSV to `limit` records per page", async () => {
    const all = idsOf(await list("", "/v1/usage"));
    const csv = await call(gateway, "GET /v1/usage?limit=2", {
      key: account.key,
      headers: { accept: "text/csv" },
    });
    expect(csv.text.trim().split("\r\n").length).toBe(3);
    expect(csv.headers.get("x-next-cursor")).toBe(all[1] ?? "");
  });
});
