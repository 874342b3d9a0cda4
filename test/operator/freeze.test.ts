// An account that an operator froze: model calls are rejected on all APIs, and everything else works.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type AccountChange,
  COMMAND_LINE_ACTOR,
  freezeAccount,
  grantCredit,
  unfreezeAccount,
} from "../../src/operator/accounts/account-actions.ts";
import { expectLedgerValid, NANO_PER_USD } from "../billing/fixtures.ts";
import { type RawProvider, startRawProvider } from "../inference/support/raw-provider.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const OWN_PROVIDER_KEY = "sk-own-0123456789abcdefghij";
const PROVIDER_REPLY = JSON.stringify({
  id: "x",
  object: "chat.completion",
  model: "gpt-5-mini",
  choices: [{ index: 0, message: { role: "assistant", content: "fine" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
});

type Json = Readonly<Record<string, unknown>>;
const MESSAGES = [{ role: "user", content: "hi" }];
const CALLS: readonly (readonly [path: string, body: Json])[] = [
  ["/v1/chat/completions", { model: "sim/echo", max_tokens: 20, messages: MESSAGES }],
  ["/v1/chat/completions", { model: "sim/echo", max_tokens: 20, messages: MESSAGES, stream: true }],
  ["/v1/responses", { model: "sim/echo", max_output_tokens: 20, input: "hi" }],
  ["/v1/messages", { model: "sim/echo", max_tokens: 20, messages: MESSAGES }],
  ["/v1/messages", { model: "sim/echo", max_tokens: 20, messages: MESSAGES, stream: true }],
  ["/v1/messages/count_tokens", { model: "sim/echo", messages: MESSAGES }],
];

describeEachStore((kind) => {
  describe(`a frozen account on ${kind}`, () => {
    let gateway: Gateway;
    let provider: RawProvider;
    let account: TestAccount;

    beforeAll(async () => {
      provider = await startRawProvider(({ path }) =>
        path.endsWith("/models")
          ? { body: '{"object":"list","data":[]}' }
          : { body: PROVIDER_REPLY },
      );
      gateway = await startGateway({ store: kind, env: { OPENAI_BASE_URL: provider.url } });
      account = await registerAccount(gateway);
      const { db } = gateway.server;
      await db.write((tx) =>
        grantCredit(tx, { ...changeOf("a start"), id: "x", amount: 5n * NANO_PER_USD }),
      );
      const added = await post("/v1/provider-keys", {
        provider: "openai",
        api_key: OWN_PROVIDER_KEY,
      });
      expect(added.status).toBe(201);
      await db.write((tx) => freezeAccount(tx, changeOf("abuse, ticket 7")));
    });
    afterAll(async () => {
      await gateway.stop();
      await provider.stop();
    });

    const changeOf = (reason: string): AccountChange => ({
      accountId: account.id,
      by: COMMAND_LINE_ACTOR,
      reason,
      network: null,
      now: Date.now(),
    });
    const post = (path: string, body: Json): Promise<Response> =>
      fetch(gateway.url + path, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify(body),
      });
    const read = async (path: string): Promise<Json> =>
      (await fetch(gateway.url + path, { headers: account.headers })).json() as Promise<Json>;

    test.each(CALLS)(
      "is rejected by %s with %j, in that API's error format",
      async (path, body) => {
        const response = await post(path, body);
        expect(response.status).toBe(403);
        const errorBody = (await response.json()) as Json;
        expect(errorBody).toMatchObject({
          ...(path.startsWith("/v1/messages") ? { type: "error" } : {}),
          error: {
            type: "billing_error",
            code: "workspace_frozen",
            frozen_by: "operator",
            frozen_reason: "abuse, ticket 7",
            next: [{ method: "GET", url: "/v1/account" }],
          },
        });
        const { message } = errorBody["error"] as { message: string };
        expect(message).toContain("The operator of this gateway froze this workspace");
        expect(message).toContain("abuse, ticket 7");
      },
    );

    test("is rejected with its own provider key as well, without a request to the provider", async () => {
      provider.requests.length = 0;
      const body = { model: "openai/gpt-5-mini", max_completion_tokens: 20, messages: MESSAGES };
      const response = await post("/v1/chat/completions", body);
      expect([response.status, ((await response.json()) as { error: Json }).error["code"]]).toEqual(
        [403, "workspace_frozen"],
      );
      expect(provider.requests).toEqual([]);
    });

    test("can read all its data, including that it is frozen", async () => {
      expect(await read("/v1/account")).toMatchObject({
        frozen: { reason: "abuse, ticket 7" },
        balance: { credits: 5_050_000 },
      });
      for (const path of [
        "/v1/keys",
        "/v1/usage",
        "/v1/audit",
        "/v1/billing/invoices",
        "/v1/provider-keys",
        "/v1/models",
      ])
        expect([path, (await read(path))["object"]]).toEqual([path, "list"]);
    });

    test("can revoke keys and create invoices", async () => {
      const created = (await (await post("/v1/keys", {})).json()) as { id: string };
      const revoked = await fetch(`${gateway.url}/v1/keys/${created.id}`, {
        method: "DELETE",
        headers: account.headers,
      });
      expect(revoked.status).toBe(200);
      expect((await post("/v1/billing/invoice", { amount_usd: 10 })).status).toBe(201);
    });

    test("does not affect other accounts", async () => {
      const other = await registerAccount(gateway);
      const [path = "", body = {}] = CALLS[0] ?? [];
      const response = await fetch(gateway.url + path, {
        method: "POST",
        headers: other.headers,
        body: JSON.stringify(body),
      });
      expect(response.status).toBe(200);
      const otherAccount = await fetch(`${gateway.url}/v1/account`, { headers: other.headers });
      expect(await otherAccount.json()).toMatchObject({ frozen: null });
    });

    test("can make calls again after it is unfrozen", async () => {
      await gateway.server.db.write((tx) => unfreezeAccount(tx, changeOf("made good")));
      for (const [path, body] of CALLS) {
        const response = await post(path, body);
        expect([path, response.status]).toEqual([path, 200]);
        await response.text();
      }
      expect(await read("/v1/account")).toMatchObject({ frozen: null });
      const own = { model: "openai/gpt-5-mini", max_completion_tokens: 20, messages: MESSAGES };
      expect((await post("/v1/chat/completions", own)).status).toBe(200);
      await expectLedgerValid(gateway.server.db);
    });
  });
});
