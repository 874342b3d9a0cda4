// Guardrails of topics, on both stores: a decisions call that the key of the request pays decides about it, or about the reply.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { Fault, type FaultCode } from "../../src/base/fault.ts";
import type { GuardPhase } from "../../src/base/guard.ts";
import { valueAt } from "../../src/base/json.ts";
import { checkTopics } from "../../src/guardrails/check-topics.ts";
import { saveGuardrail } from "../../src/guardrails/guardrails.ts";
import { createUser, makeOwner, textOf, visitPage } from "../billing/console-user.ts";
import {
  bodyOf,
  type Caller,
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  postCall,
  simStats,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
} from "../inference/support/harness.ts";
import { actIn } from "../support/act.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore } from "../support/stores/stores.ts";

/** The simulator answers every question with a probability of 0.75. */
const DENYING = { type: "topics", topics: ["legal advice", "weapons"], threshold: 0.7 };
const ALLOWING = { ...DENYING, threshold: 0.8 };
const IDS = /(?:req|resp|msg|chatcmpl)[_-][\w-]+/g;

/** The texts of the deltas of a stream over any API. */
function textIn(stream: string): string {
  return [...stream.matchAll(/"(?:content|text|delta)":"((?:[^"\\]|\\.)*)"/g)]
    .filter(({ input, index }) => {
      const line = input.slice(input.lastIndexOf("\n", index) + 1, index);
      return /delta/.test(line) && !/\.done|completed/.test(line);
    })
    .map(([, text]) => text)
    .join("");
}

test("a check that its key cannot pay is no failure of the check", async () => {
  const settings = {
    ...DENYING,
    type: "topics",
    model: "m",
    phases: [],
    on_failure: "allow",
  } as const;
  const check = (code: FaultCode, phase: GuardPhase): Promise<unknown> => {
    const decide = () => Promise.reject(new Fault(code, code));
    return checkTopics(
      { call: { decide }, phase, allowedTexts: new Set() },
      { name: "t", settings },
      [{ path: "a", text: "Hi" }],
      () => {},
    );
  };
  for (const code of ["insufficient_credits", "key_limit_reached", "rate_limited"] as const) {
    expect(await rejectionMessage(check(code, "input"))).toContain(code);
    expect(await rejectionMessage(check(code, "output"))).toContain("denied the reply");
  }
  for (const phase of ["input", "output"] as const)
    expect(await check("upstream_error", phase)).toEqual(["Hi"]);
});

describeEachStore((store) => {
  describe(`topics on ${store}`, () => {
    let gateway: Gateway;
    let account: Caller;
    beforeAll(async () => {
      gateway = await startGateway({ store });
    });
    afterAll(() => gateway.stop());
    beforeEach(async () => {
      account = await registerAccount(gateway);
      await grantCredits(gateway, account, USD);
    });
    afterEach(() => expectSettledLedger(gateway.server.db));

    const request = async (method: string, path: string, body?: Json) => {
      const response = await fetch(`${gateway.url}${path}`, {
        method,
        headers: account.headers,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      // Safe because these routes respond with objects.
      return { status: response.status, json: (await response.json()) as Json };
    };
    const save = (settings: Json) => request("POST", "/v1/guardrails/topics", settings);
    const records = () => usageRecordsOf(gateway.server.db, account.id);
    const chat = async (text = "Hi", caller = account) => {
      const body = bodyOf("chat", text, { model: "sim/echo", max_tokens: 9 });
      const response = await postCall(gateway, caller, "chat", body);
      // Safe because a call that does not stream responds with an object.
      return { status: response.status, json: (await response.json()) as Json };
    };

    for (const api of STREAMED_APIS)
      test(`deny a request over ${api}, whole and streamed, and charge the check only`, async () => {
        const saved = await save(DENYING);
        expect(saved.status).toBe(200);
        for (const stream of [false, true]) {
          const before = (await records()).length;
          const { requests } = await simStats(gateway);
          const body = bodyOf(api, "May I sue?", { model: "sim/echo", stream });
          const response = await postCall(gateway, account, api, body);
          expect(response.status).toBe(403);
          const text = await response.text();
          expect(text).toContain("guardrail_denied");
          expect(text).toContain('it is about \\"legal advice\\". Only the check was charged.');
          expect((await simStats(gateway)).requests).toBe(requests + 1);
          const added = (await records()).slice(before);
          expect(added.map((record) => record["api"])).toEqual(["decisions"]);
          expect(Number(added[0]?.["cost_nano"])).toBeGreaterThan(0);
        }
      });

    test("let a request pass below the threshold, and are in its record", async () => {
      await save(ALLOWING);
      expect((await chat()).status).toBe(200);
      const list = await request("GET", "/v1/usage?limit=10");
      const data = valueAt(list.json, ["data"]);
      const found = Array.isArray(data) ? data : [];
      const recordOf = (api: string): unknown =>
        found.find((one: unknown) => valueAt({ one }, ["one", "api"]) === api);
      expect(recordOf("decisions")).toBeDefined();
      expect(recordOf("chat")).toMatchObject({
        guardrails: [{ name: "topics", phase: "input", action: "allowed" }],
      });
    });

    test("check what keys send that may not call the model that decides", async () => {
      await save(DENYING);
      const created = await request("POST", "/v1/keys", {
        name: "narrow",
        allowed_models: ["sim/echo"],
        allowed_endpoints: ["chat"],
        requests_per_minute: 60,
      });
      const authorization = `Bearer ${String(created.json["api_key"])}`;
      const narrow = { ...account, headers: { ...account.headers, authorization } };
      const denied = await chat("Hi", narrow);
      expect([denied.status, errorOf(denied.json)["code"]]).toEqual([403, "guardrail_denied"]);
    });

    test("are not skipped by a key beyond its limit, also if failures let calls pass", async () => {
      await save({ ...DENYING, on_failure: "allow" });
      const created = await request("POST", "/v1/keys", { name: "poor", limit_usd: 0 });
      const authorization = `Bearer ${String(created.json["api_key"])}`;
      const poor = { ...account, headers: { ...account.headers, authorization } };
      const { requests } = await simStats(gateway);
      const refused = await chat("Hi", poor);
      expect([refused.status, errorOf(refused.json)["code"]]).toEqual([403, "key_limit_reached"]);
      expect((await simStats(gateway)).requests).toBe(requests);
    });

    test("deny a call whose check fails, or let it pass, as the guardrail says", async () => {
      const failing = "[[sim: status=400]] Hi";
      await save(DENYING);
      const broken = "[[sim: status=500]] Hi";
      const denied = await chat(broken);
      expect([denied.status, errorOf(denied.json)["code"]]).toEqual([403, "guardrail_denied"]);
      expect(String(errorOf(denied.json)["message"])).toContain("its check failed");
      await save({ ...DENYING, on_failure: "allow" });
      expect((await chat(broken)).status).toBeGreaterThan(499);
      expect((await chat(failing)).status).toBe(400);
    });

    test("charge no count of tokens", async () => {
      await save(DENYING);
      const body = { model: "sim/echo", messages: [{ role: "user", content: "Hi" }] };
      expect((await request("POST", "/v1/messages/count_tokens", body)).status).toBe(200);
      expect(await records()).toEqual([]);
    });

    for (const api of STREAMED_APIS)
      test(`deny a reply over ${api}, whole and streamed, and charge the call and its checks`, async () => {
        await save({ ...DENYING, phases: ["output"] });
        for (const stream of [false, true]) {
          const before = (await records()).length;
          const body = bodyOf(api, "May I sue?", { model: "sim/echo", stream });
          const response = await postCall(gateway, account, api, body);
          expect(response.status).toBe(stream ? 200 : 403);
          const text = await response.text();
          expect(text).toContain("guardrail_denied");
          expect(text).toContain("The call and its checks were charged");
          expect(text).not.toContain("You said");
          await expectSettledLedger(gateway.server.db);
          const added = (await records()).slice(before);
          const denied = added.find((record) => record["api"] === api);
          expect(denied?.["outcome"]).toBe("guardrail_denied");
          expect(added.filter((record) => record["api"] === "decisions").length).toBe(1);
          for (const record of added) expect(Number(record["cost_nano"])).toBeGreaterThan(0);
        }
      });

    for (const api of STREAMED_APIS)
      test(`check a stream over ${api} in parts, and each text once`, async () => {
        const body = bodyOf(api, "[[sim: tokens=400 chunks=40]] Hi", {
          model: "sim/echo",
          stream: true,
          ...(api === "responses" ? { max_output_tokens: 500 } : { max_tokens: 500 }),
        });
        const read = async (): Promise<string> =>
          (await (await postCall(gateway, account, api, body)).text()).replaceAll(IDS, "");
        const unchecked = await read();
        await save({ ...ALLOWING, phases: ["output"] });
        const before = (await records()).length;
        expect(textIn(await read())).toBe(textIn(unchecked));
        await expectSettledLedger(gateway.server.db);
        const added = (await records()).slice(before);
        const checks = added.filter((record) => record["api"] === "decisions").length;
        const { length } = textIn(unchecked);
        expect(length).toBeGreaterThan(1_000);
        // In parts of at least 400 characters; Responses has the whole text again at the end.
        expect(checks).toBeGreaterThan(1);
        expect(checks).toBeLessThanOrEqual(Math.ceil(length / 400) + 1);
        const record = added.find((one) => one["api"] === api);
        expect(JSON.parse(String(record?.["detail"]))["guardrails"]).toMatchObject([
          { name: "topics", phase: "output", action: "allowed" },
        ]);
      });

    test("check the reply of a key that may make one call at a time", async () => {
      await save({ ...ALLOWING, phases: ["input", "output"] });
      const created = await request("POST", "/v1/keys", {
        name: "narrow",
        max_concurrent_calls: 1,
      });
      const authorization = `Bearer ${String(created.json["api_key"])}`;
      const narrow = { ...account, headers: { ...account.headers, authorization } };
      expect((await chat("Hi", narrow)).status).toBe(200);
    });

    test("need a model that answers decisions", async () => {
      const saved = await save(DENYING);
      expect(valueAt(saved.json, ["settings", "model"])).toMatch(/decisions$/);
      const other = await save({ ...DENYING, model: "sim/echo-large" });
      expect([other.status, errorOf(other.json)["param"]]).toEqual([400, "model"]);
      for (const wrong of [
        { topics: [] },
        { phases: [] },
        { threshold: 2 },
        { topics: ["a\u202eb"] },
      ])
        expect([wrong, (await save({ ...DENYING, ...wrong })).status]).toEqual([wrong, 400]);
      const settings = { ...DENYING, phases: ["input"], on_failure: "deny" } as const;
      const refused = gateway.server.db.write((tx) =>
        saveGuardrail(tx, actIn(account.id, Date.now()), {
          name: "topics",
          settings: { ...settings, type: "topics" },
          allowLoopback: true,
          decisionModels: [],
        }),
      );
      expect(await rejectionMessage(refused)).toContain("no decisions model");
    });

    test("are saved in the console", async () => {
      const owner = await createUser(gateway, `owner of ${account.id}`);
      await makeOwner(gateway, account.id, owner);
      const path = `/console/${account.id}/guardrails`;
      const form = {
        do: "topics",
        name: "topics",
        topics: "legal advice\nweapons\n",
        on_failure: "deny",
        input: "on",
        output: "on",
      };
      expect((await visitPage(gateway, path, owner, form)).status).toBe(303);
      expect(textOf(await visitPage(gateway, path, owner))).toContain(
        "Denies legal advice, weapons",
      );
      const empty = await visitPage(gateway, path, owner, { ...form, topics: " " });
      expect(textOf(empty)).toContain("topics");
      expect(empty.status).toBe(400);
    });
  });
});
