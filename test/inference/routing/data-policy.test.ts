// What providers may do with the data of a call: rules of the request, of the key and of the operator. Without a provider that
// qualifies, nothing is sent.

import { afterAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import type { DataRules } from "../../../src/base/data-rules.ts";
import { brokenRule, dataPolicyOf } from "../../../src/models/data-policy.ts";
import { DATA_POLICIES } from "../../../src/models/tables/data-policies.ts";
import { createUser, makeOwner, visitPage } from "../../billing/console-user.ts";
import { type Json, listAt, textAt, valueAt } from "../../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  grantCredits,
  postCall,
  simStats,
  STREAMED_APIS,
  USD,
} from "../support/harness.ts";

const PROVIDERS = ["sim", "openai", "fireworks", "together"];

/** The body of an answer, whose error is read. */
async function bodyFrom(response: Response): Promise<Json> {
  // Safe because the gateway sends objects.
  return (await response.json()) as Json;
}

describe.each(STORE_KINDS)("the data policy on %s", async (store) => {
  const gateway = await startGateway({ store, providers: PROVIDERS });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
  afterAll(() => gateway.stop());

  async function keyWith(policy: Json, from: TestAccount = account): Promise<Response> {
    return fetch(`${gateway.url}/v1/keys`, {
      method: "POST",
      headers: { ...from.headers, "idempotency-key": crypto.randomUUID() },
      body: JSON.stringify(policy),
    });
  }

  const withKey = (key: unknown): TestAccount => ({
    ...account,
    headers: { ...account.headers, authorization: `Bearer ${String(key)}` },
  });

  test.each(STREAMED_APIS)(
    "of a request refuses a provider that stores data, over %s",
    async (api) => {
      for (const stream of [false, true]) {
        const before = await simStats(gateway);
        const model = "openai/gpt-4.1";
        const more = { model, stream, provider: { zdr: true } };
        const response = await postCall(gateway, account, api, bodyOf(api, "hi", more));
        const body = await bodyFrom(response);
        expect(response.status).toBe(400);
        const message = textAt(body, "error.message");
        expect(message).toContain("`provider.zdr` asks for a provider that stores nothing");
        expect(message).toMatch(/Models of these providers qualify: .*fireworks/);
        expect(await simStats(gateway)).toEqual(before);
      }
    },
  );

  test("of a request lets a provider through that qualifies", async () => {
    for (const provider of [
      { zdr: true },
      { data_collection: "deny" },
      { zdr: true, data_collection: "deny" },
      { region: "local" },
    ]) {
      const response = await postCall(
        gateway,
        account,
        "chat",
        bodyOf("chat", "hi", { model: "sim/echo", provider }),
      );
      await response.text();
      expect([provider, response.status]).toEqual([provider, 200]);
    }
    // Not trained on, but stored.
    const trained = await postCall(
      gateway,
      account,
      "chat",
      bodyOf("chat", "hi", { model: "openai/gpt-4.1", provider: { data_collection: "deny" } }),
    );
    await trained.text();
    expect(trained.status).toBe(200);
  });

  test("names the same model elsewhere, and moves on among the providers of a model", async () => {
    const model = "openai/gpt-4.1";
    const more = { model, models: ["sim/echo"], provider: { zdr: true } };
    const response = await postCall(gateway, account, "chat", bodyOf("chat", "hi", more));
    await response.text();
    expect([response.status, response.headers.get("x-postern-provider")]).toEqual([200, "sim"]);
  });

  test("covers counts of tokens and embeddings", async () => {
    const provider = { region: "eu" };
    const count = await fetch(`${gateway.url}/v1/messages/count_tokens`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({ ...bodyOf("messages", "hi", { model: "openai/gpt-4.1" }), provider }),
    });
    expect([count.status, valueAt(await bodyFrom(count), "error.type")]).toEqual([
      400,
      "invalid_request_error",
    ]);
    const embeddings = await postCall(gateway, account, "embeddings", {
      model: "openai/text-embedding-3-small",
      input: "hi",
      provider,
    });
    expect([embeddings.status, valueAt(await bodyFrom(embeddings), "error.param")]).toEqual([
      400,
      "provider.region",
    ]);
    const misspelled = await postCall(gateway, account, "embeddings", {
      model: "sim/embed",
      input: "hi",
      provider: { zdr: "true" },
    });
    expect([misspelled.status, valueAt(await bodyFrom(misspelled), "error.param")]).toEqual([
      400,
      "provider.zdr",
    ]);
  });

  test("of a key restricts all of its calls and its list of models", async () => {
    const created = await bodyFrom(await keyWith({ name: "zdr", data_policy: "zdr" }));
    expect(created["data_policy"]).toEqual("zdr");
    const holder = withKey(created["api_key"]);
    const refused = await postCall(
      gateway,
      holder,
      "chat",
      bodyOf("chat", "hi", { model: "openai/gpt-4.1" }),
    );
    const body = await bodyFrom(refused);
    expect([refused.status, valueAt(body, "error.policy")]).toEqual([403, "data_policy"]);
    const allowed = await postCall(
      gateway,
      holder,
      "chat",
      bodyOf("chat", "hi", { model: "sim/echo", provider: { zdr: false } }),
    );
    await allowed.text();
    expect(allowed.status).toBe(200);
    const list = await bodyFrom(
      await fetch(`${gateway.url}/v1/models`, { headers: holder.headers }),
    );
    const providers = new Set(
      (list["data"] as readonly { readonly id: string }[]).map(({ id }) => id.split("/")[0]),
    );
    expect(providers).toEqual(new Set(["fireworks", "sim", "together"]));
  });

  test("of a key can be changed by the owner, and is refused with other words", async () => {
    const created = await bodyFrom(await keyWith({ name: "a", data_policy: "region=us, deny" }));
    const url = `${gateway.url}/v1/keys/${String(created["id"])}`;
    const patch = async (data_policy: unknown): Promise<Response> =>
      fetch(url, {
        method: "PATCH",
        headers: account.headers,
        body: JSON.stringify({ data_policy }),
      });
    const removed = await patch(null);
    expect([removed.status, (await bodyFrom(removed))["data_policy"]]).toEqual([200, null]);
    for (const wrong of ["", "none", "region=", "zdr, sometimes", { zdr: true }, 7]) {
      const response = await patch(wrong);
      await response.text();
      expect([wrong, response.status]).toEqual([wrong, 400]);
    }
  });

  describe("of a workspace", () => {
    const set = (from: TestAccount, policy: string | null): Promise<Response> =>
      fetch(`${gateway.url}/v1/account`, {
        method: "PATCH",
        headers: from.headers,
        body: JSON.stringify({ data_policy: policy }),
      });
    const modelsOf = async (from: TestAccount): Promise<readonly string[]> => {
      const response = await fetch(`${gateway.url}/v1/models`, { headers: from.headers });
      return listAt(await bodyFrom(response), "data").map((model) => String(model["id"]));
    };

    test.each(STREAMED_APIS)("restricts the calls of all of its keys, over %s", async (api) => {
      const [own, other] = [await registerAccount(gateway), await registerAccount(gateway)];
      expect(textAt(await bodyFrom(await set(own, "ZDR, region=us")), "data_policy")).toBe(
        "zdr, region=us",
      );
      const created = await bodyFrom(await keyWith({ name: "child" }, own));
      const child = { ...own, headers: withKey(created["api_key"]).headers };
      const before = await simStats(gateway);
      for (const [stream, caller] of [
        [false, own],
        [true, child],
      ] as const) {
        const more = { model: "openai/gpt-4.1", stream, max_tokens: 9 };
        const response = await postCall(gateway, caller, api, bodyOf(api, "hi", more));
        const body = await bodyFrom(response);
        expect([response.status, valueAt(body, "error.policy")]).toEqual([403, "data_policy"]);
        const message = textAt(body, "error.message");
        expect(message).toContain("The `data_policy` of this workspace allows only providers that");
        expect(message).toMatch(/qualif/);
        // A request only adds rules.
        const looser = { ...more, provider: { zdr: false, data_collection: "allow" } };
        expect((await postCall(gateway, caller, api, bodyOf(api, "hi", looser))).status).toBe(403);
      }
      expect(await simStats(gateway)).toEqual(before);
      expect(await modelsOf(child)).not.toContain("openai/gpt-4.1");
      expect(await modelsOf(other)).toContain("openai/gpt-4.1");
      expect((await set(own, null)).status).toBe(200);
      expect(await modelsOf(own)).toContain("openai/gpt-4.1");
    });

    test("is loosened by no key of a claimed account, and refused with other words", async () => {
      const own = await registerAccount(gateway);
      expect((await set(own, "everything")).status).toBe(400);
      expect((await set(own, "region=eu")).status).toBe(200);
      const owner = await createUser(gateway, `owner of ${own.id}`);
      await makeOwner(gateway, own.id, owner);
      for (const looser of [null, "zdr", "region=us", ""])
        expect([looser, (await set(own, looser)).status]).toEqual([looser, 403]);
      expect((await set(own, "region=eu, deny")).status).toBe(200);
      const path = `/console/${own.id}/settings`;
      const wrong = await visitPage(gateway, path, owner, { name: "Acme", data_policy: "no" });
      expect(wrong.text).toContain("must be zdr, deny or region");
      const saved = await visitPage(gateway, path, owner, { name: "Acme", data_policy: "deny" });
      expect(saved.status).toBe(303);
      expect((await visitPage(gateway, path, owner)).text).toContain('value="deny"');
      const audit = await fetch(`${gateway.url}/v1/audit?action=account.data_policy_changed`, {
        headers: own.headers,
      });
      expect(valueAt(await bodyFrom(audit), "data.0.detail")).toEqual({
        data_policy: "deny",
        data_policy_before: "deny, region=eu",
      });
    });
  });

  test("is in the endpoints of a model, with its source, and on its page", async () => {
    const path = "/v1/models/openai/gpt-4.1/endpoints";
    const { data } = (await bodyFrom(await fetch(gateway.url + path))) as {
      data: readonly Json[];
    };
    expect(data[0]?.["data_policy"]).toEqual({
      retention_days: 30,
      training: false,
      region: null,
      source: "https://developers.openai.com/api/docs/guides/your-data",
      checked: "2026-11-28",
    });
    const page = await fetch(`${gateway.url}/models/openai/gpt-4.1.md`);
    expect(await page.text()).toContain("up to 30 days");
  });
});

describe("the operator's settings", () => {
  async function statusAt(gateway: Gateway, model: string): Promise<number> {
    const account = await registerAccount(gateway);
    const response = await postCall(gateway, account, "chat", bodyOf("chat", "hi", { model }));
    await response.text();
    return response.status;
  }

  test("restrict every call, except where an agreement says otherwise", async () => {
    const env = { POSTERN_DATA_POLICY: "zdr" };
    const strict = await startGateway({ providers: PROVIDERS, env });
    const own = await startGateway({
      providers: PROVIDERS,
      env: { ...env, POSTERN_ZDR_PROVIDERS: "openai" },
    });
    try {
      const model = "openai/gpt-5-nano";
      expect([await statusAt(strict, model), await statusAt(own, model)]).toEqual([400, 200]);
      expect(await statusAt(strict, "sim/echo")).toBe(200);
    } finally {
      await strict.stop();
      await own.stop();
    }
  });

  test("say nothing of a caller's own provider key", async () => {
    const gateway = await startGateway({
      providers: PROVIDERS,
      env: { POSTERN_ZDR_PROVIDERS: "openai" },
    });
    try {
      const account = await registerAccount(gateway);
      const body = bodyOf("chat", "hi", { model: "openai/gpt-5-nano", provider: { zdr: true } });
      const shared = await postCall(gateway, account, "chat", body);
      await shared.text();
      expect(shared.status).toBe(200);
      const added = await fetch(`${gateway.url}/v1/provider-keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ provider: "openai", api_key: "sk-own-openai-0123456789abcdef" }),
      });
      expect(added.status).toBe(201);
      const response = await postCall(gateway, account, "chat", body);
      await response.text();
      // The gateway's own account still qualifies.
      expect([response.status, response.headers.get("x-postern-byok")]).toEqual([200, "false"]);
    } finally {
      await gateway.stop();
    }
  });
});

describe("the table", () => {
  test("has a source and a day for each row", () => {
    for (const { source, checked, provider } of DATA_POLICIES)
      expect({ provider, source, checked }).toEqual({
        provider,
        source: expect.stringMatching(/^https:\/\/|^packages\//),
        checked: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      });
  });

  test("unknown satisfies no rule", () => {
    const policy = dataPolicyOf({ provider: "nowhere", name: "m" });
    const rules: readonly DataRules[] = [
      { zdr: true },
      { data_collection: "deny" },
      { region: "us" },
    ];
    for (const one of rules) expect(brokenRule(policy, one)).toBe(Object.keys(one)[0] as "zdr");
    expect(brokenRule(policy, {})).toBeUndefined();
  });

  test("more rules never let more through", () => {
    const rule = fc.record(
      {
        zdr: fc.constant(true as const),
        data_collection: fc.constant("deny" as const),
        region: fc.constantFrom("us", "eu", "local"),
      },
      { requiredKeys: [] },
    );
    const policy = fc.record({
      retentionDays: fc.constantFrom(null, 0, 30),
      training: fc.constantFrom(null, true, false),
      region: fc.constantFrom(null, "us", "eu"),
      source: fc.constant(null),
      checked: fc.constant(null),
    });
    fc.assert(
      fc.property(policy, rule, rule, (one, rules, more) => {
        if (brokenRule(one, rules) !== undefined)
          expect(brokenRule(one, { ...more, ...rules })).toBeDefined();
      }),
    );
  });
});
