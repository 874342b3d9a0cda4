// Blocked networks and email domains, lists of accounts to freeze, and limits that change without a restart.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newFormToken } from "../../src/idempotency/form-submission.ts";
import { registerAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  fetchPage,
  type OperatorHarness,
  type OperatorSession,
  type PageResponse,
  readAudit,
  signInOperator,
  startOperatorHarness,
} from "./harness.ts";

const PATH = "/operator/controls";

describe.each(STORE_KINDS)("blocks and limits on %s", (store) => {
  let harness: OperatorHarness;
  let operator: OperatorSession;
  beforeAll(async () => {
    harness = await startOperatorHarness(store, { POSTERN_TRUSTED_PROXIES: "127.0.0.0/8" });
  });
  afterAll(() => harness.gateway.stop());
  beforeEach(async () => {
    operator = await signInOperator(harness);
  });

  const send = (fields: Record<string, string>): Promise<PageResponse> =>
    fetchPage(harness, PATH, operator, {
      form: { csrf: operator.csrf, form: newFormToken(), ...fields },
    });
  const from = (address: string, path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    headers.set("x-forwarded-for", address);
    return fetch(harness.gateway.url + path, { ...init, headers });
  };
  const createAccount = (body: object, address = "198.51.100.7"): Promise<Response> =>
    from(address, "/v1/accounts", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });

  test("a blocked network gets a 403 until the block is removed, and others do not", async () => {
    const account = await registerAccount(harness.gateway);
    const call = (address: string): Promise<Response> =>
      from(address, "/v1/account", { headers: account.headers });
    const sent = await send({
      do: "block",
      kind: "network",
      value: "203.0.113.0/24",
      reason: "abuse",
    });
    expect(sent.location).toContain("done=blocked");
    for (const path of ["/", "/docs", "/v1/models", "/console"])
      expect([path, (await from("203.0.113.9", path)).status]).toEqual([path, 403]);
    const refused = await call("203.0.113.9");
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({
      error: {
        code: "forbidden",
        message: "The operator of this gateway has blocked your network.",
      },
    });
    expect((await from("203.0.113.9", "/readyz")).status).toBe(200);
    expect((await from("203.0.113.9", "/operator/signin")).status).toBe(200);
    expect((await call("203.0.114.9")).status).toBe(200);
    expect((await fetchPage(harness, PATH, operator)).text).toContain("203.0.113.0/24");
    await send({ do: "unblock", kind: "network", value: "203.0.113.0/24" });
    expect((await call("203.0.113.9")).status).toBe(200);
    const entries = await readAudit(harness.gateway.server.db, "block.removed");
    expect(entries.at(-1)).toMatchObject({ target: "203.0.113.0/24", account_id: null });
  });

  test("an address of a blocked domain or its subdomains is the contact of no account and no claim", async () => {
    await send({ do: "block", kind: "email_domain", value: "@Spam.Example", reason: "abuse" });
    for (const email of ["a@spam.example", "a@mail.spam.example"])
      expect([email, (await createAccount({ email })).status]).toEqual([email, 403]);
    expect((await createAccount({ email: "a@notspam.example" })).status).toBe(201);
    const account = await registerAccount(harness.gateway);
    const claim = await fetch(`${harness.gateway.url}/agent/identity/claim`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ email: "a@spam.example" }),
    });
    expect(claim.status).toBe(403);
    await send({ do: "unblock", kind: "email_domain", value: "spam.example" });
    expect((await createAccount({ email: "a@spam.example" })).status).toBe(201);
  });

  test.each([
    ["network", "203.0.113.0/4"],
    ["network", "0.0.0.0/0"],
    ["network", "example.com"],
    ["network", "203.0.113.0/24/8"],
    ["email_domain", "not a domain"],
  ])("refuses the %s %s", async (kind, value) => {
    const response = await send({ do: "block", kind, value, reason: "abuse" });
    expect(response.status).toBe(400);
    expect(response.text).toContain('role="alert"');
  });

  test("freezes a list of accounts, or none if one does not exist", async () => {
    const [one, other] = [
      await registerAccount(harness.gateway),
      await registerAccount(harness.gateway),
    ];
    const frozen = async (): Promise<readonly unknown[]> => {
      const rows = await harness.gateway.server.db.all(
        "select account_id from wallet where frozen_at is not null and account_id in (?, ?)",
        [one.id, other.id],
      );
      return rows;
    };
    const unknown = `acct_${"0".repeat(26)}`;
    const missing = await send({
      do: "freeze",
      accounts: `${one.id}\n${unknown}`,
      reason: "abuse",
    });
    expect(missing.status).not.toBe(303);
    expect(await frozen()).toEqual([]);
    const sent = await send({ do: "freeze", accounts: `${one.id}\n${other.id}`, reason: "abuse" });
    expect(sent.location).toContain("done=frozen");
    expect(await frozen()).toHaveLength(2);
  });

  test("a changed limit holds at once, and an empty value restores the setting", async () => {
    const address = "192.0.2.77";
    await send({ do: "limit", name: "accountsPerHour", value: "1" });
    expect((await createAccount({}, address)).status).toBe(201);
    expect((await createAccount({}, address)).status).toBe(429);
    expect((await send({ do: "limit", name: "accountsPerHour", value: "-1" })).status).toBe(400);
    await send({ do: "limit", name: "accountsPerHour", value: "" });
    expect((await createAccount({}, address)).status).toBe(201);
    const entries = await readAudit(harness.gateway.server.db, "limit.changed");
    expect(entries.at(-1)?.detail).toEqual({ value: "the setting" });
  });

  const setLimit = (name: string, value: string): Promise<PageResponse> =>
    send({ do: "limit", name, value });

  test("a changed rate of requests holds at once, for API requests, model calls and refused ones", async () => {
    const account = await registerAccount(harness.gateway);
    const read = (): Promise<Response> =>
      fetch(`${harness.gateway.url}/v1/account`, { headers: account.headers });
    const call = (model: string): Promise<Response> =>
      fetch(`${harness.gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ model, max_tokens: 8, messages: [{ role: "user", content: "hi" }] }),
      });
    const statusesOfTwo = async (request: () => Promise<Response>): Promise<readonly number[]> => [
      (await request()).status,
      (await request()).status,
    ];
    expect((await read()).status).toBe(200);
    await setLimit("requestsPerMinute", "6");
    expect(await statusesOfTwo(read)).toEqual([200, 429]);
    expect(await statusesOfTwo(() => call("sim/echo"))).toEqual([200, 429]);
    await setLimit("requestsPerMinute", "5");
    expect(await statusesOfTwo(() => call("sim/none"))).toEqual([404, 429]);
    await setLimit("requestsPerMinute", "");
    expect(await statusesOfTwo(read)).toEqual([200, 200]);
    expect(await statusesOfTwo(() => call("sim/echo"))).toEqual([200, 200]);
  });

  test("a changed limit of concurrent calls holds at once", async () => {
    const account = await registerAccount(harness.gateway);
    const call = (content: string): Promise<Response> =>
      fetch(`${harness.gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({
          model: "sim/echo",
          stream: true,
          max_tokens: 20,
          messages: [{ role: "user", content }],
        }),
      });
    await setLimit("openCallsPerKey", "1");
    const open = await call("[[sim: hang=1]] one two three");
    expect(open.status).toBe(200);
    expect((await call("hello")).status).toBe(429);
    await setLimit("openCallsPerKey", "");
    const second = await call("hello");
    expect(second.status).toBe(200);
    await second.text();
    await open.body?.cancel();
  });
});
