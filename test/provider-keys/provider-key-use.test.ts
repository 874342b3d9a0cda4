// Which API keys use a provider key, who may change that, and what the provider may store.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createUser, makeOwner, type TestUser, visitPage } from "../billing/console-user.ts";
import { bodyOf, grantCredits, type Json, postCall, USD } from "../inference/support/harness.ts";
import { type RawProvider, startRawProvider } from "../inference/support/raw-provider.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const GATEWAY_KEY = "sk-gateway-0123456789abcdef";
const MODEL = "openai/gpt-5-mini";
const COMPLETION = {
  id: "x",
  object: "chat.completion",
  model: "gpt-5-mini",
  choices: [{ index: 0, message: { role: "assistant", content: "fine" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
};
const RESPONSE = {
  id: "resp_1",
  object: "response",
  status: "completed",
  model: "gpt-5-mini",
  output: [],
  usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
};

interface ApiKey {
  readonly id: string;
  readonly key: string;
}

interface Reply {
  readonly status: number;
  readonly body: Json;
}

describeEachStore((store) => {
  describe(`the API keys of a provider key on ${store}`, () => {
    let provider: RawProvider;
    let gateway: Gateway;
    let account: TestAccount;
    let root: ApiKey;
    let other: ApiKey;
    let owner: TestUser;

    beforeAll(async () => {
      provider = await startRawProvider(({ path }) => {
        if (path.endsWith("/models")) return { body: '{"object":"list","data":[]}' };
        return { body: JSON.stringify(path.endsWith("/responses") ? RESPONSE : COMPLETION) };
      });
      gateway = await startGateway({
        store,
        providers: [],
        env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: GATEWAY_KEY },
      });
      owner = await createUser(gateway, "olga");
    });
    afterAll(async () => {
      await gateway.stop();
      await provider.stop();
    });
    beforeEach(async () => {
      account = await registerAccount(gateway);
      await grantCredits(gateway, account, USD);
      const own = await api("GET", "/v1/account", { key: account.key });
      root = { key: account.key, id: String(Object(own.body["key"]).id) };
      other = await mint(root, {});
      provider.requests.length = 0;
    });

    const api = async (
      method: string,
      path: string,
      { key, body }: { readonly key: string; readonly body?: Json },
    ): Promise<Reply> => {
      const response = await fetch(gateway.url + path, {
        method,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      // Safe because every reply of the API is a JSON object.
      return { status: response.status, body: (await response.json()) as Json };
    };
    const mint = async ({ key }: ApiKey, body: Json): Promise<ApiKey> => {
      const { body: minted } = await api("POST", "/v1/keys", { key, body });
      return { id: String(minted["id"]), key: String(minted["api_key"]) };
    };
    const add = ({ key }: ApiKey, raw: string, more: Json = {}): Promise<Reply> =>
      api("POST", "/v1/provider-keys", {
        key,
        body: { provider: "openai", api_key: `sk-${raw}-0123456789abcdef`, ...more },
      });
    const change = ({ key }: ApiKey, added: Reply, body: Json): Promise<Reply> =>
      api("PATCH", `/v1/provider-keys/${String(added.body["id"])}`, { key, body });
    const callAs = ({ key }: ApiKey, body: Json, name: "chat" | "responses" = "chat") =>
      postCall(
        gateway,
        { ...account, key, headers: { ...account.headers, authorization: `Bearer ${key}` } },
        name,
        body,
      );
    /** The provider key that a call of the API key is sent with. */
    const usedBy = async (apiKey: ApiKey): Promise<string> => {
      provider.requests.length = 0;
      const response = await callAs(apiKey, bodyOf("chat", "my secret prompt", { model: MODEL }));
      expect(response.status).toBe(200);
      const sent = String(provider.requests[0]?.headers["authorization"]);
      return sent.replace("Bearer sk-", "").replace(/-0123.*/, "");
    };
    const expectForbidden = ({ status, body }: Reply, param: string): void =>
      expect([status, Object(body["error"])]).toEqual([
        403,
        expect.objectContaining({ code: "forbidden", param }),
      ]);

    test("a provider key that an API key adds serves that key alone", async () => {
      const added = await add(other, "others");
      expect(added.body).toMatchObject({ api_key_ids: [other.id], allow_store: false });
      expect([await usedBy(other), await usedBy(root)]).toEqual(["others", "gateway"]);
    });

    test("the key that acts as the owner chooses the API keys, when it adds and later", async () => {
      const third = await mint(root, {});
      const added = await add(root, "chosen", { api_key_ids: [other.id, third.id] });
      expect(added.status).toBe(201);
      const users = async () => [await usedBy(root), await usedBy(other), await usedBy(third)];
      expect(await users()).toEqual(["gateway", "chosen", "chosen"]);
      const narrowed = await change(root, added, { api_key_ids: [third.id] });
      expect([narrowed.status, narrowed.body["api_key_ids"]]).toEqual([200, [third.id]]);
      expect(await users()).toEqual(["gateway", "gateway", "chosen"]);
      expect((await change(root, added, { api_key_ids: null, name: "all" })).body).toMatchObject({
        api_key_ids: null,
        name: "all",
      });
      expect(await users()).toEqual(["chosen", "chosen", "chosen"]);
      await add(root, "special", { api_key_ids: [other.id] });
      expect(await users()).toEqual(["chosen", "special", "chosen"]);
      const listed = await api("GET", "/v1/models", { key: third.key });
      expect(JSON.stringify(listed.body)).toContain(MODEL);
    });

    test("rejects API keys that the account does not have, and an empty list", async () => {
      const stranger = await registerAccount(gateway);
      const foreign = await api("GET", "/v1/account", { key: stranger.key });
      for (const ids of [
        ["key_none"],
        [root.id, String(Object(foreign.body["key"]).id)],
        [],
        "all",
      ]) {
        const { status, body } = await add(root, "bad", { api_key_ids: ids });
        expect([status, Object(body["error"]).param]).toEqual([
          400,
          expect.stringMatching(/^api_key_ids/),
        ]);
      }
      const added = await add(root, "good");
      expect((await change(root, added, { api_key_ids: ["key_none"] })).status).toBe(400);
      expect((await change(root, added, { provider: "mistral" })).status).toBe(400);
    });

    test("a hostile key cannot redirect the prompts of others", async () => {
      const limited = await mint(root, { limit_usd: 0.01 });
      const narrow = await mint(root, { scopes: ["models:write", "provider_keys:write"] });
      const shared = await add(root, "shared", { api_key_ids: null });
      for (const attacker of [limited, narrow]) {
        expectForbidden(await add(attacker, "evil", { api_key_ids: null }), "api_key_ids");
        expectForbidden(await add(attacker, "evil", { api_key_ids: [root.id] }), "api_key_ids");
        expectForbidden(
          await add(attacker, "evil", { api_key_ids: [attacker.id, other.id] }),
          "api_key_ids",
        );
        const own = await add(attacker, "own");
        expect(own.body["api_key_ids"]).toEqual([attacker.id]);
        expectForbidden(await change(attacker, own, { api_key_ids: null }), "api_key_ids");
        expectForbidden(await change(attacker, own, { api_key_ids: [other.id] }), "api_key_ids");
        expectForbidden(await change(attacker, own, { allow_store: true }), "allow_store");
        expect((await change(attacker, own, { name: "mine", allow_store: false })).status).toBe(
          200,
        );
        for (const body of [{ api_key_ids: [attacker.id] }, { name: "x" }, { allow_store: true }])
          expectForbidden(await change(attacker, shared, body), "id");
        expect([await usedBy(root), await usedBy(other)]).toEqual(["shared", "shared"]);
      }
      const target = `/v1/provider-keys/${String(shared.body["id"])}`;
      expectForbidden(await api("DELETE", target, { key: limited.key }), "id");
    });

    test("after a claim no API key decides about others, also one without a limit", async () => {
      const before = await add(root, "before", { api_key_ids: null });
      const own = await add(other, "own");
      await makeOwner(gateway, account.id, owner);
      for (const attacker of [root, other]) {
        expectForbidden(await add(attacker, "evil", { api_key_ids: null }), "api_key_ids");
        expectForbidden(await change(attacker, before, { api_key_ids: null }), "id");
        expectForbidden(await change(attacker, before, { allow_store: true }), "id");
      }
      expectForbidden(await change(other, own, { allow_store: true }), "allow_store");
      expect([await usedBy(root), await usedBy(other)]).toEqual(["before", "own"]);
    });

    test("a limited key does not delete or change its provider key once others use it", async () => {
      const limited = await mint(root, { limit_usd: 0.01 });
      const own = await add(limited, "own");
      await change(root, own, { api_key_ids: [limited.id, other.id] });
      const target = `/v1/provider-keys/${String(own.body["id"])}`;
      expectForbidden(await change(limited, own, { name: "x" }), "id");
      expectForbidden(await api("DELETE", target, { key: limited.key }), "id");
      expect(await usedBy(other)).toBe("own");
    });

    test("the owner chooses the API keys and storing in the console", async () => {
      await makeOwner(gateway, account.id, owner);
      const page = `/console/${account.id}/provider-keys`;
      const form = { do: "add", provider: "openai", api_key: "sk-console-0123456789abcdef" };
      const incomplete = await visitPage(gateway, page, owner, { ...form, used_by: "chosen" });
      expect([incomplete.status, incomplete.text]).toEqual([
        400,
        expect.stringContaining("Choose at least one API key"),
      ]);
      const chosen = { ...form, used_by: "chosen", [other.id]: "on" };
      expect((await visitPage(gateway, page, owner, chosen)).status).toBe(303);
      expect([await usedBy(root), await usedBy(other)]).toEqual(["gateway", "console"]);
      const listed = await api("GET", "/v1/provider-keys", { key: root.key });
      const [added] = listed.body["data"] as readonly Json[];
      expect(added).toMatchObject({ api_key_ids: [other.id], allow_store: false });
      const edit = { do: "change", provider_key: String(added?.["id"]), allow_store: "on" };
      expect((await visitPage(gateway, page, owner, edit)).status).toBe(303);
      expect([await usedBy(root), await usedBy(other)]).toEqual(["console", "console"]);
      const audit = await api("GET", "/v1/audit", { key: root.key });
      const [entry] = audit.body["data"] as readonly Json[];
      expect(entry).toMatchObject({
        action: "provider_key.changed",
        actor: { type: "person", id: owner.personId },
        detail: { api_key_ids: null, allow_store: true },
      });
      const stranger = await createUser(gateway, `stranger-${account.id}`);
      expect((await visitPage(gateway, page, stranger, edit)).status).toBe(404);
    });

    test("PATCH refuses a deleted provider key and one of another account", async () => {
      const added = await add(root, "gone");
      const stranger = await registerAccount(gateway);
      const foreign = { id: "", key: stranger.key };
      expect((await change(foreign, added, { name: "x" })).status).toBe(404);
      await api("DELETE", `/v1/provider-keys/${String(added.body["id"])}`, { key: root.key });
      const { status, body } = await change(root, added, { name: "x" });
      expect([status, Object(body["error"]).code]).toEqual([409, "conflict"]);
    });

    const lastSent = (): Json => JSON.parse(provider.requests.at(-1)?.body ?? "{}") as Json;

    test("nothing is stored at the provider unless the owner allows it", async () => {
      const added = await add(root, "own");
      const chat = bodyOf("chat", "x", { model: MODEL, store: true });
      const response = { model: MODEL, input: "x", previous_response_id: "resp_0" };
      const dropped = await callAs(root, chat);
      expect([dropped.status, lastSent()["store"]]).toEqual([200, false]);
      expect(dropped.headers.get("x-postern-dropped")).toBe("store");
      await callAs(root, bodyOf("chat", "x", { model: MODEL }));
      expect(lastSent()).not.toHaveProperty("store");
      for (const more of [{}, { store: true }]) {
        expect((await callAs(root, { ...response, ...more }, "responses")).status).toBe(200);
        expect(lastSent()["store"]).toBe(false);
      }
      for (const more of [{ conversation: "conv_1" }, { background: true }]) {
        const refused = await callAs(root, { ...response, ...more }, "responses");
        const { error } = (await refused.json()) as { error: Json };
        expect([refused.status, error["param"]]).toEqual([400, Object.keys(more)[0]]);
        expect(String(error["message"])).toContain("allow_store");
      }
      expect((await change(root, added, { allow_store: true })).status).toBe(200);
      for (const more of [{ store: true }, {}, { conversation: "conv_1" }]) {
        const body = { ...response, ...more };
        expect((await callAs(root, body, "responses")).status).toBe(200);
        expect(lastSent()).toEqual({ ...body, model: "gpt-5-mini" });
      }
      expect((await callAs(root, chat)).headers.get("x-postern-dropped")).toBeNull();
      expect(lastSent()["store"]).toBe(true);
    });
  });
});
