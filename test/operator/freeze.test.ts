// An account that its operator froze: no call on any of the three APIs, a clear word about it, and everything else goes on.

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
        grantCredit(tx, { ...act("a start"), id: "x", amount: 5n * NANO_PER_USD }),
      );
      const added = await post("/v1/provider-keys", {
        provider: "openai",
        api_key: OWN_PROVIDER_KEY,
      });
      expect(added.status).toBe(201);
      await db.write((tx) => freezeAccount(tx, act("abuse, ticket 7")));
    });
    afterAll(async () => {
      await gateway.stop();
      await provider.stop();
    });

    const act = (reason: string): AccountChange => ({
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

    test.each(CALLS)("is refused by %s with %j, in that API's own form", async (path, body) => {
      const answer = await post(path, body);
      expect(answer.status).toBe(403);
      const said = (await answer.json()) as Json;
      expect(said).toMatchObject({
        ...(path.startsWith("/v1/messages") ? { type: "error" } : {}),
        error: {
          type: "billing_error",
          code: "workspace_frozen",
          frozen_by: "operator",
          frozen_reason: "abuse, ticket 7",
          next: [{ method: "GET", url: "/v1/account" }],
        },
      });
      const { message } = said["error"] as { message: string };
      expect(message).toContain("The operator of this gateway froze this workspace at 20");
      expect(message).toContain("abuse, ticket 7");
    });

    test("is refused on a provider key of its own, too, and nothing is sent with it", async () => {
      provider.requests.length = 0;
      const body = { model: "openai/gpt-5-mini", max_completion_tokens: 20, messages: MESSAGES };
      const answer = await post("/v1/chat/completions", body);
      expect([answer.status, ((await answer.json()) as { error: Json }).error["code"]]).toEqual([
        403,
        "workspace_frozen",
      ]);
      expect(provider.requests).toEqual([]);
    });

    test("reads everything, and is told in the account that it is frozen", async () => {
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

    test("can still revoke keys and ask for invoices", async () => {
      const made = (await (await post("/v1/keys", {})).json()) as { id: string };
      const gone = await fetch(`${gateway.url}/v1/keys/${made.id}`, {
        method: "DELETE",
        headers: account.headers,
      });
      expect(gone.status).toBe(200);
      expect((await post("/v1/billing/invoice", { amount_usd: 10 })).status).toBe(201);
    });

    test("leaves the others alone", async () => {
      const other = await registerAccount(gateway);
      const [path = "", body = {}] = CALLS[0] ?? [];
      const answer = await fetch(gateway.url + path, {
        method: "POST",
        headers: other.headers,
        body: JSON.stringify(body),
      });
      expect(answer.status).toBe(200);
      const theirs = await fetch(`${gateway.url}/v1/account`, { headers: other.headers });
      expect(await theirs.json()).toMatchObject({ frozen: null });
    });

    test("makes calls again when it is unfrozen, on all of them", async () => {
      await gateway.server.db.write((tx) => unfreezeAccount(tx, act("made good")));
      for (const [path, body] of CALLS) {
        const answer = await post(path, body);
        expect([path, answer.status]).toEqual([path, 200]);
        await answer.text();
      }
      expect(await read("/v1/account")).toMatchObject({ frozen: null });
      const own = { model: "openai/gpt-5-mini", max_completion_tokens: 20, messages: MESSAGES };
      expect((await post("/v1/chat/completions", own)).status).toBe(200);
      await expectLedgerValid(gateway.server.db);
    });
  });
});
