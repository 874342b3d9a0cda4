// Guardrails of a workspace: their routes, and what they do to calls of every API.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createHash, createPublicKey, verify } from "node:crypto";
import { isObject, type JsonObject, parseObject, valueAt } from "../../src/base/json.ts";
import { textFieldsOf } from "../../src/inference/guardrails/guarded-texts.ts";
import {
  bodyOf,
  type Caller,
  countOpenHolds,
  errorOf,
  expectEnvelope,
  expectSettledLedger,
  grantCredits,
  isCompleteStream,
  type Json,
  lastSimulatorRequest,
  postCall,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
  waitUntil,
  withHeaders,
} from "../inference/support/harness.ts";
import { casesOn, testOn } from "../support/full.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const SECRET = `sk-${"aB3".repeat(12)}`;
const MASKING = { type: "patterns", entities: ["api_key", "email"], action: "mask" };
const DENYING = { ...MASKING, action: "deny" };

interface Received {
  readonly body: JsonObject;
  readonly text: string;
  readonly token: string;
}

/** A hook whose verdict each test sets. */
function startHook() {
  const received: Received[] = [];
  let respond: (body: JsonObject) => unknown = () => ({ action: "allow" });
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      const text = await request.text();
      const body = parseObject(text) ?? {};
      const token = request.headers.get("authorization")?.replace("Bearer ", "") ?? "";
      received.push({ body, text, token });
      const verdict = await respond(body);
      return verdict instanceof Response ? verdict : Response.json(verdict);
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}/guard?secret=1`,
    received,
    respondWith: (next: typeof respond) => {
      respond = next;
    },
    stop: () => server.stop(true),
  };
}

function textsIn(body: JsonObject): readonly string[] {
  const texts: unknown = body["texts"];
  return Array.isArray(texts)
    ? texts.map((one: unknown) => String(valueAt({ one }, ["one", "text"])))
    : [];
}

describeEachStore((store) => {
  const testOnce = testOn(store);
  let gateway: Gateway;
  let account: Caller;
  let hook: ReturnType<typeof startHook>;
  beforeAll(async () => {
    gateway = await startGateway({ store });
  });
  beforeEach(async () => {
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
    hook = startHook();
  });
  afterEach(async () => {
    await hook.stop();
    await expectSettledLedger(gateway.server.db);
  });
  afterAll(() => gateway.stop());

  async function send(method: string, path: string, body?: Json, caller: Caller = account) {
    const response = await fetch(`${gateway.url}${path}`, {
      method,
      headers: caller.headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // Safe: the routes of guardrails respond with JSON objects.
    const json = (await response.json()) as Json;
    return { status: response.status, json, text: JSON.stringify(json) };
  }
  const save = (name: string, settings: Json, caller?: Caller) =>
    send("POST", `/v1/guardrails/${name}`, settings, caller);
  const saveHook = (settings: Json = {}) =>
    save("hook", { type: "hook", url: hook.url, timeout_ms: 5_000, ...settings });
  const lastUsage = async () => {
    const list = await send("GET", "/v1/usage?limit=1");
    return JSON.stringify(valueAt(list.json, ["data"]));
  };

  describe(`POST /v1/guardrails/{name} on ${store}`, () => {
    test("saves a guardrail, replaces its settings, and audits both", async () => {
      const created = await save("no-secrets", MASKING);
      expectStatus("saveGuardrail", 200, created);
      expect(created.json).toMatchObject({
        object: "guardrail",
        name: "no-secrets",
        settings: { ...MASKING, phases: ["input", "output"] },
      });
      const replaced = await save("no-secrets", { ...DENYING, phases: ["input"] });
      expect(replaced.json).toMatchObject({
        created_at: created.json["created_at"],
        settings: { action: "deny", phases: ["input"] },
      });
      const audit = await send("GET", "/v1/audit?limit=2");
      expect(audit.text.match(/guardrail\.saved/g)?.length).toBe(2);
    });

    test("rejects settings that no guardrail can have", async () => {
      for (const settings of [
        { type: "patterns", entities: [] },
        { type: "patterns", entities: ["shoe_size"] },
        { type: "hook", url: "http://example.com/" },
        { type: "hook", url: "https://10.0.0.1/" },
        { type: "hook", url: "https://user:pass@example.com/" },
        { type: "hook", url: "https://example.com/", timeout_ms: 60_000 },
        { type: "hook", url: "https://example.com/", phases: [] },
        { type: "topics" },
        { ...MASKING, url: "https://example.com/" },
      ])
        expectStatus("saveGuardrail", 400, await save("wrong", settings));
      expectStatus("saveGuardrail", 400, await save("Upper%20case", MASKING));
    });

    test("has limits, and needs the scope account:write", async () => {
      for (const name of ["one", "two", "three"])
        await save(name, { type: "hook", url: "https://example.com/" });
      const fourth = await save("four", { type: "hook", url: "https://example.com/" });
      expectStatus("saveGuardrail", 409, fourth);
      for (let index = 0; index < 7; index++) await save(`p${index}`, MASKING);
      expectStatus("saveGuardrail", 409, await save("p7", MASKING));
      expect((await save("p6", DENYING)).status).toBe(200);
      const key = await send("POST", "/v1/keys", { name: "calls", scopes: ["models:write"] });
      const narrow = withHeaders(account, {
        authorization: `Bearer ${String(valueAt(key.json, ["api_key"]))}`,
      });
      expectStatus("saveGuardrail", 403, await save("narrow", MASKING, narrow));
      expectStatus("listGuardrails", 403, await send("GET", "/v1/guardrails", undefined, narrow));
      expectStatus("getGuardrail", 403, await send("GET", "/v1/guardrails/one", undefined, narrow));
      expectStatus(
        "deleteGuardrail",
        403,
        await send("DELETE", "/v1/guardrails/one", undefined, narrow),
      );
    });
  });

  describe(`GET /v1/guardrails on ${store}`, () => {
    test("lists patterns before hooks, and only those of the own workspace", async () => {
      await saveHook();
      await save("no-secrets", MASKING);
      const list = await send("GET", "/v1/guardrails");
      expectStatus("listGuardrails", 200, list);
      expect(list.text).toMatch(/"no-secrets".*"hook"/);
      expectStatus("listGuardrails", 400, await send("GET", "/v1/guardrails?limit=5"));
      const stranger = await registerAccount(gateway);
      expect((await send("GET", "/v1/guardrails", undefined, stranger)).json["data"]).toEqual([]);
    });
  });

  describe(`GET /v1/guardrails/{name} on ${store}`, () => {
    test("returns one, or 404", async () => {
      await save("read", MASKING);
      expectStatus("getGuardrail", 200, await send("GET", "/v1/guardrails/read"));
      expectStatus("getGuardrail", 404, await send("GET", "/v1/guardrails/none"));
      expectStatus("getGuardrail", 400, await send("GET", "/v1/guardrails/Upper"));
      const stranger = await registerAccount(gateway);
      const other = await send("GET", "/v1/guardrails/read", undefined, stranger);
      expectStatus("getGuardrail", 404, other);
    });
  });

  describe(`DELETE /v1/guardrails/{name} on ${store}`, () => {
    test("deletes it: calls are not checked any more", async () => {
      await save("gone", DENYING);
      const denied = await postCall(gateway, account, "chat", bodyOf("chat", SECRET));
      expect(denied.status).toBe(403);
      expectStatus("deleteGuardrail", 200, await send("DELETE", "/v1/guardrails/gone"));
      expectStatus("deleteGuardrail", 404, await send("DELETE", "/v1/guardrails/gone"));
      expectStatus("deleteGuardrail", 400, await send("DELETE", "/v1/guardrails/Upper"));
      const passed = await postCall(gateway, account, "chat", bodyOf("chat", SECRET));
      expect([passed.status, await passed.text()]).toEqual([200, expect.stringContaining(SECRET)]);
    });
  });

  describe(`requests that guardrails check on ${store}`, () => {
    const APIS = [...STREAMED_APIS, "embeddings"] as const;

    test.each(casesOn(store, APIS))("%s: the provider gets the masked text", async (api) => {
      await save("mask", { ...MASKING, phases: ["input"] });
      const body = bodyOf(api, `Use ${SECRET} as ada@example.com`, { user: "ada@example.com" });
      const response = await postCall(gateway, account, api, body);
      expect(response.status).toBe(200);
      const sent = JSON.stringify(await lastSimulatorRequest(gateway));
      expect(sent).toContain("Use [API_KEY] as [EMAIL]");
      expect(sent).not.toContain("ada@example.com");
      expect(await lastUsage()).toContain('"name":"mask","phase":"input","action":"masked"');
    });

    test.each(casesOn(store, APIS))(
      "%s: a denied request costs nothing and is in the log",
      async (api) => {
        await save("deny", DENYING);
        const response = await postCall(gateway, account, api, bodyOf(api, `Use ${SECRET}`));
        const body: unknown = await response.json();
        expect(response.status).toBe(403);
        expectEnvelope(api, body);
        expect(errorOf(body)["code"]).toBe("guardrail_denied");
        expect(String(errorOf(body)["message"])).toMatch(/"deny".*`api_key`.*Nothing was charged/);
        expect(await countOpenHolds(gateway.server.db)).toBe(0);
        expect(await usageRecordsOf(gateway.server.db, account.id)).toEqual([]);
      },
    );

    testOnce(
      "Google's API, tool results, system texts and arguments are checked, too",
      async () => {
        await save("mask", { ...MASKING, phases: ["input"] });
        const gemini = await fetch(`${gateway.url}/v1beta/models/sim/echo:generateContent`, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify({
            systemInstruction: { parts: [{ text: `System ${SECRET}` }] },
            contents: [{ role: "user", parts: [{ text: `User ${SECRET}` }] }],
          }),
        });
        expect(gemini.status).toBe(200);
        expect(JSON.stringify(await lastSimulatorRequest(gateway))).not.toContain(SECRET);
        const use = { type: "tool_use", id: "toolu_1", name: "login", input: { id: SECRET } };
        const result = { type: "tool_result", tool_use_id: "toolu_1", content: `ok ${SECRET}` };
        const tool = { name: "login", input_schema: { type: "object" } };
        const messages = await postCall(gateway, account, "messages", {
          ...bodyOf("messages", "Log in."),
          system: [{ type: "text", text: `System ${SECRET}` }],
          tools: [tool],
          messages: [
            { role: "user", content: "Log in." },
            { role: "assistant", content: [use] },
            { role: "user", content: [result] },
          ],
        });
        expect(messages.status).toBe(200);
        const sent = JSON.stringify(await lastSimulatorRequest(gateway));
        expect(sent).not.toContain(SECRET);
        expect(sent.match(/\[API_KEY\]/g)?.length).toBe(3);
      },
    );

    test.each(casesOn(store, APIS))(
      "%s: a text that begins as a data URL is checked",
      async (api) => {
        await save("mask", { ...MASKING, phases: ["input"] });
        const text = `data:text/plain;base64,AAAA Use ${SECRET} as ada@example.com`;
        expect((await postCall(gateway, account, api, bodyOf(api, text))).status).toBe(200);
        const sent = JSON.stringify(await lastSimulatorRequest(gateway));
        expect(sent).toContain("Use [API_KEY] as [EMAIL]");
      },
    );

    testOnce("the text of a plain document is checked", async () => {
      await save("mask", { ...MASKING, phases: ["input"] });
      const source = { type: "text", media_type: "text/plain", data: `The key is ${SECRET}.` };
      const content = [
        { type: "document", source },
        { type: "text", text: "What is the key?" },
      ];
      const body = { ...bodyOf("messages", ""), messages: [{ role: "user", content }] };
      expect((await postCall(gateway, account, "messages", body)).status).toBe(200);
      const sent = JSON.stringify(await lastSimulatorRequest(gateway));
      expect(sent).toContain("The key is [API_KEY].");
    });

    testOnce("integers beyond 2^53 and spaces reach the provider as they were sent", async () => {
      await save("mask", { ...MASKING, phases: ["input"] });
      const rest = `"seed" : 9007199254740993, "tools": [ {"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer","maximum":18446744073709551615}}}}} ]`;
      for (const [sent, content] of [
        [`Use ${SECRET}`, "Use [API_KEY]"],
        ["Use caf\\u00e9", "Use caf\\u00e9"],
      ] as const) {
        const text = (model: string, words: string): string =>
          `{"model": "${model}", "messages": [ {"role":"user", "content":"${words}"} ], ${rest}}`;
        const response = await fetch(`${gateway.url}/v1/chat/completions`, {
          method: "POST",
          headers: account.headers,
          body: text("sim/echo", sent),
        });
        expect(response.status).toBe(200);
        // Only the members of the gateway's own are added at the start.
        const { body } = await lastSimulatorRequest(gateway);
        expect(body).toEndWith(text("echo", content).slice(1));
      }
    });

    testOnce("of two members with one name, the provider gets the checked one", async () => {
      await save("mask", { ...MASKING, phases: ["input"] });
      const text = `{"model": "sim/echo", "messages": [{"role": "user", "name": "a", "content": "${SECRET}", "content": "plain"}]}`;
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: account.headers,
        body: text,
      });
      if (response.status === 200)
        expect(JSON.stringify(await lastSimulatorRequest(gateway))).not.toContain(SECRET);
      else expect(response.status).toBe(400);
    });

    testOnce("counting tokens shows the provider the masked text, too", async () => {
      await save("mask", { ...MASKING, phases: ["input"] });
      const counted = await fetch(`${gateway.url}/v1/messages/count_tokens`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({
          model: "sim/echo",
          messages: [{ role: "user", content: `Use ${SECRET}` }],
        }),
      });
      expect(counted.status).toBe(200);
      expect(JSON.stringify(await lastSimulatorRequest(gateway))).not.toContain(SECRET);
    });

    test("guardrails of another workspace do not apply", async () => {
      await save("deny", DENYING);
      const other = await registerAccount(gateway);
      await grantCredits(gateway, other, USD);
      expect((await postCall(gateway, other, "chat", bodyOf("chat", SECRET))).status).toBe(200);
    });

    test("a quote of the request that was sent is accepted, although it is masked", async () => {
      await save("mask", { ...MASKING, phases: ["input"] });
      const body = bodyOf("chat", `Use ${SECRET}`);
      const quote = await send("POST", "/v1/quote", body);
      const offer = String(valueAt(quote.json, ["offer"]));
      const quoted = withHeaders(account, { "x-postern-quote": offer });
      expect((await postCall(gateway, quoted, "chat", body)).status).toBe(200);
    });

    test("a quote does not pay for a request that a hook made longer", async () => {
      await saveHook({ phases: ["input"] });
      const body = bodyOf("chat", "Hi", { max_tokens: 10 });
      const quote = await send("POST", "/v1/quote", body);
      const quoted = withHeaders(account, {
        "x-postern-quote": String(valueAt(quote.json, ["offer"])),
      });
      hook.respondWith(() => ({ action: "rewrite", texts: ["long words ".repeat(20_000)] }));
      const refused = await postCall(gateway, quoted, "chat", body);
      expect([refused.status, await refused.text()]).toEqual([
        400,
        expect.stringContaining("may now cost more than the quote"),
      ]);
      expect(await usageRecordsOf(gateway.server.db, account.id)).toEqual([]);
      hook.respondWith(() => ({ action: "rewrite", texts: ["Ho"] }));
      expect((await postCall(gateway, quoted, "chat", body)).status).toBe(200);
    });

    testOnce("more matches than can be masked are denied", async () => {
      await save("mask", { ...MASKING, phases: ["input"] });
      const part = { type: "text", text: "a@b.co ".repeat(60_000) };
      const content = (parts: number) => ({
        messages: [{ role: "user", content: Array.from({ length: parts }, () => part) }],
      });
      const denied = await postCall(gateway, account, "chat", bodyOf("chat", "", content(2)));
      expect([denied.status, await denied.text()]).toEqual([
        403,
        expect.stringContaining("more than 100000 matches"),
      ]);
      const masked = await postCall(gateway, account, "chat", bodyOf("chat", "", content(1)));
      expect([masked.status, await masked.text()]).toEqual([200, expect.not.stringContaining("@")]);
    });

    testOnce("a body that is nested too deeply is a 400", async () => {
      await save("mask", MASKING);
      const nested = "[".repeat(50_000) + "]".repeat(50_000);
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: account.headers,
        body: `{"model":"sim/echo","messages":[{"role":"user","content":"Hi"}],"x":${nested}}`,
      });
      expect([response.status, await response.text()]).toEqual([
        400,
        expect.stringContaining("nesting levels"),
      ]);
    });

    test("a receipt has the hash of the body that was received", async () => {
      await save("mask", { ...MASKING, phases: ["input"] });
      const body = bodyOf("chat", `Use ${SECRET}`);
      const receipt = withHeaders(account, { "x-postern-receipt": "1" });
      const response = await postCall(gateway, receipt, "chat", body);
      const [, payload = ""] = (response.headers.get("x-postern-receipt") ?? "").split(".");
      const hash = createHash("sha256").update(JSON.stringify(body)).digest("hex");
      expect(Buffer.from(payload, "base64url").toString()).toContain(hash);
    });
  });

  describe(`replies that guardrails check on ${store}`, () => {
    const REPLY = `Your key is ${SECRET}, ada@example.com has it.`;

    testOnce("a text that begins as a data URL is checked, and an image is not", () => {
      const text = "data:;base64,AAAA and a text";
      const image_url = "data:image/png;base64,AAAA";
      const delta = { content: text, image_url };
      const fields = textFieldsOf({ choices: [{ delta }] }, "output");
      expect(fields.map((field) => field.text)).toEqual([text]);
    });

    test.each(casesOn(store, STREAMED_APIS))(
      "%s: masks a whole reply and a stream",
      async (api) => {
        await save("mask", { ...MASKING, phases: ["output"] });
        for (const stream of [false, true]) {
          const response = await postCall(gateway, account, api, bodyOf(api, REPLY, { stream }));
          const text = await response.text();
          expect(response.status).toBe(200);
          expect(text).not.toContain(SECRET.slice(0, 12));
          expect(text).not.toContain("ada@example.com");
          expect(text).toContain("[API_KEY]");
          if (stream) expect(isCompleteStream(api, text)).toBe(true);
          expect(await lastUsage()).toContain('"name":"mask","phase":"output","action":"masked"');
        }
      },
    );

    test.each(casesOn(store, STREAMED_APIS))(
      "%s: a denied whole reply is charged and not returned",
      async (api) => {
        await save("deny", { ...DENYING, phases: ["output"] });
        const response = await postCall(gateway, account, api, bodyOf(api, REPLY));
        const body: unknown = await response.json();
        expect(response.status).toBe(403);
        expectEnvelope(api, body);
        expect(JSON.stringify(body)).not.toContain(SECRET);
        expect(String(errorOf(body)["message"])).toContain("The call was charged");
        const [record] = await usageRecordsOf(gateway.server.db, account.id);
        expect([record?.["outcome"], Number(record?.["cost_nano"]) > 0]).toEqual([
          "guardrail_denied",
          true,
        ]);
      },
    );

    test.each(casesOn(store, STREAMED_APIS))(
      "%s: a denied stream ends with the error, charged",
      async (api) => {
        await save("deny", { ...DENYING, phases: ["output"] });
        const long = `${"plain words ".repeat(30)} ${REPLY} ${"more words ".repeat(40)} [[sim: pace=2]]`;
        const response = await postCall(gateway, account, api, bodyOf(api, long, { stream: true }));
        const text = await response.text();
        expect(text).toContain("word");
        expect(text).toContain("guardrail_denied");
        expect(text).not.toContain(SECRET.slice(0, 12));
        expect(isCompleteStream(api, text)).toBe(false);
        const record = await waitUntil(
          async () => (await usageRecordsOf(gateway.server.db, account.id))[0],
          (found) => found !== undefined,
        );
        expect([record?.["outcome"], Number(record?.["cost_nano"]) > 0]).toEqual([
          "guardrail_denied",
          true,
        ]);
      },
    );

    test("a stored response has the masked text; of a denied one, nothing is stored", async () => {
      await save("mask", { ...MASKING, phases: ["output"] });
      for (const stream of [false, true]) {
        const body = bodyOf("responses", REPLY, { store: true, stream });
        const text = await (await postCall(gateway, account, "responses", body)).text();
        const id = /"(resp_\w+)"/.exec(text)?.[1] ?? "";
        const stored = await send("GET", `/v1/responses/${id}`);
        expect(stored.status).toBe(200);
        expect(JSON.stringify(stored.json["output"])).toContain("[API_KEY]");
        expect(JSON.stringify(stored.json["output"])).not.toContain(SECRET);
      }
      await send("DELETE", "/v1/guardrails/mask");
      await save("deny", { ...DENYING, phases: ["output"] });
      const body = bodyOf("responses", REPLY, { store: true, stream: true });
      const text = await (await postCall(gateway, account, "responses", body)).text();
      const id = /"(resp_\w+)"/.exec(text)?.[1] ?? "resp_none";
      expect((await send("GET", `/v1/responses/${id}`)).text).not.toContain(SECRET);
    });

    test("a conversation that is older than a guardrail is checked when it is sent again", async () => {
      const first = bodyOf("responses", `Remember ${SECRET}`, { store: true });
      const stored = await (await postCall(gateway, account, "responses", first)).text();
      const previous = /"(resp_\w+)"/.exec(stored)?.[1];
      expect(stored).toContain(SECRET);
      const next = bodyOf("responses", "And now?", { previous_response_id: previous });
      const reference = bodyOf("responses", "", {
        input: [
          { type: "item_reference", id: /"(msg_\w+)"/.exec(stored)?.[1] },
          { role: "user", content: "And now?" },
        ],
      });
      for (const body of [next, { ...next, background: true }, reference]) {
        await save("own", { ...MASKING, phases: ["input"] });
        const reply = await postCall(gateway, account, "responses", body);
        expect(reply.status).toBe(200);
        const { id } = (await reply.json()) as Json;
        await waitUntil(
          () => send("GET", `/v1/responses/${String(id)}`),
          ({ json }) => json["status"] === "completed",
        );
        const sent = (await lastSimulatorRequest(gateway)).body;
        expect(sent).toContain("[API_KEY]");
        expect(sent).not.toContain(SECRET);
        await save("own", { ...DENYING, phases: ["input"] });
        const denied = await postCall(gateway, account, "responses", body);
        expect([denied.status, errorOf((await denied.json()) as Json)["code"]]).toEqual([
          403,
          "guardrail_denied",
        ]);
      }
    });

    test("a repetition with the same Idempotency-Key returns the masked reply", async () => {
      await save("mask", { ...MASKING, phases: ["output"] });
      const keyed = withHeaders(account, { "idempotency-key": "guardrail-1" });
      for (const stream of [false, true]) {
        const caller = withHeaders(keyed, { "idempotency-key": `guardrail-${String(stream)}` });
        const body = bodyOf("chat", REPLY, { stream });
        // A keep-alive is not repeated.
        const response = await postCall(gateway, caller, "chat", body);
        const first = (await response.text()).replace(/^: keep-alive\n\n/, "");
        const again = await (await postCall(gateway, caller, "chat", body)).text();
        expect(first).not.toContain(SECRET);
        expect(again).toBe(first);
      }
    });

    test("the response cache has no reply from before the guardrail", async () => {
      const cached = withHeaders(account, { "x-postern-cache": "600" });
      const body = bodyOf("chat", REPLY);
      expect(await (await postCall(gateway, cached, "chat", body)).text()).toContain(SECRET);
      await save("mask", { ...MASKING, phases: ["output"] });
      const masked = await postCall(gateway, cached, "chat", body);
      expect(masked.headers.get("x-postern-cache")).toBe("miss");
      expect(await masked.text()).not.toContain(SECRET);
      const hit = await postCall(gateway, cached, "chat", body);
      expect(hit.headers.get("x-postern-cache")).toBe("hit");
      expect(await hit.text()).not.toContain(SECRET);
    });

    test("a caller that leaves a checked stream is charged for what was generated", async () => {
      await save("mask", { ...MASKING, phases: ["output"] });
      const leaving = new AbortController();
      const body = bodyOf("chat", `${"words ".repeat(200)}[[sim: pace=20]]`, { stream: true });
      const response = await postCall(
        gateway,
        { ...account, signal: leaving.signal },
        "chat",
        body,
      );
      await response.body?.getReader().read();
      leaving.abort();
      const record = await waitUntil(
        async () => (await usageRecordsOf(gateway.server.db, account.id))[0],
        (found) => found !== undefined,
      );
      expect(Number(record?.["cost_nano"])).toBeGreaterThan(0);
    });

    test("an item of a batch is checked as a call is", async () => {
      await save("deny", { ...DENYING, phases: ["output"] });
      const requests = [REPLY, "Hello."].map((text, index) => ({
        custom_id: String(index),
        body: bodyOf("chat", text),
      }));
      const batch = await send("POST", "/v1/batches", {
        endpoint: "/v1/chat/completions",
        completion_window: "24h",
        requests,
      });
      expect(batch.status).toBe(200);
      const ended = await waitUntil(
        () => send("GET", `/v1/batches/${String(batch.json["id"])}`),
        ({ json }) => json["status"] === "completed",
      );
      expect(valueAt(ended.json, ["request_counts"])).toMatchObject({ completed: 1, failed: 1 });
    });
  });

  describe(`hooks of guardrails on ${store}`, () => {
    test("a hook gets the texts in a request that the gateway signed", async () => {
      await save("mask", { ...MASKING, phases: ["input"] });
      await saveHook();
      await postCall(gateway, account, "chat", bodyOf("chat", `Hello ${SECRET}`));
      const [input, output] = hook.received;
      expect(input?.body).toMatchObject({
        object: "guardrail.check",
        guardrail: "hook",
        phase: "input",
        account_id: account.id,
        api: "chat",
        texts: [{ path: "messages[0].content", text: "Hello [API_KEY]" }],
      });
      expect(output?.body).toMatchObject({ phase: "output" });
      const [head = "", payload = "", signature = ""] = (input?.token ?? "").split(".");
      const keys = await send("GET", "/.well-known/jwks.json");
      const jwk: unknown = valueAt(keys.json, ["keys"]);
      const [first] = Array.isArray(jwk) ? jwk : [];
      const publicKey = createPublicKey({ key: first as never, format: "jwk" });
      const signed = Buffer.from(`${head}.${payload}`);
      expect(verify(null, signed, publicKey, Buffer.from(signature, "base64url"))).toBe(true);
      expect(JSON.parse(Buffer.from(payload, "base64url").toString())).toMatchObject({
        aud: hook.url,
        sub: account.id,
        body_sha256: createHash("sha256")
          .update(input?.text ?? "")
          .digest("hex"),
      });
      expect(Buffer.from(head, "base64url").toString()).toContain("postern-guardrail+jwt");
    });

    test.each(casesOn(store, STREAMED_APIS))(
      "%s: a hook rewrites requests and whole replies",
      async (api) => {
        await saveHook();
        hook.respondWith((body) => ({
          action: "rewrite",
          texts: textsIn(body).map((text) =>
            body["phase"] === "input" ? text.replace("Hello", "Bonjour") : text.toUpperCase(),
          ),
        }));
        const response = await postCall(gateway, account, api, bodyOf(api, "Hello you"));
        expect(JSON.stringify(await lastSimulatorRequest(gateway))).toContain("Bonjour you");
        expect(await response.text()).toContain("BONJOUR YOU");
        expect(await lastUsage()).toContain('"phase":"output","action":"rewritten"');
      },
    );

    test("a hook denies a request, a reply and a stream, with its reason", async () => {
      await saveHook();
      for (const [phase, stream] of [
        ["input", false],
        ["output", false],
        ["output", true],
      ] as const) {
        hook.respondWith((body) =>
          body["phase"] === phase ? { action: "deny", reason: "off\ntopic" } : { action: "allow" },
        );
        const body = bodyOf("chat", "words ".repeat(300), { stream });
        const text = await (await postCall(gateway, account, "chat", body)).text();
        expect(text).toContain("guardrail_denied");
        expect(text).toContain("off topic");
      }
      const records = await waitUntil(
        () => usageRecordsOf(gateway.server.db, account.id),
        (found) => found.length === 2,
      );
      expect(records.every(({ outcome }) => outcome === "guardrail_denied")).toBe(true);
    });

    testOnce(
      "a stream goes to the hook in parts, and to the caller as each is allowed",
      async () => {
        await saveHook({ phases: ["output"] });
        const words = Array.from({ length: 300 }, (_, index) => `w${index}`).join(" ");
        const prompt = `${words} [[sim: pace=1]]`;
        const body = bodyOf("chat", prompt, { stream: true, max_tokens: 4_000 });
        const text = await (await postCall(gateway, account, "chat", body)).text();
        expect(isCompleteStream("chat", text)).toBe(true);
        expect(hook.received.length).toBeGreaterThan(2);
        expect(hook.received[0]?.body).toMatchObject({ is_part: true, is_last: false });
        expect(hook.received.at(-1)?.body).toMatchObject({ is_part: true, is_last: true });
      },
    );

    test("a hook that fails denies the call, or lets it pass where that is set", async () => {
      const failures: readonly (() => unknown)[] = [
        () => new Response("no", { status: 500 }),
        () => new Response("not json"),
        () => ({ action: "perhaps" }),
        () => ({ action: "rewrite", texts: ["one", "too", "many"] }),
        () => Response.redirect("http://127.0.0.1:1/", 302),
      ];
      for (const failure of failures) {
        hook.respondWith(failure);
        await saveHook({ phases: ["input"] });
        const denied = await postCall(gateway, account, "chat", bodyOf("chat", "Hello."));
        expect([denied.status, await denied.text()]).toEqual([
          403,
          expect.stringContaining("its hook failed"),
        ]);
        await saveHook({ phases: ["input"], on_failure: "allow" });
        const passed = await postCall(gateway, account, "chat", bodyOf("chat", "Hello."));
        expect(passed.status).toBe(200);
        expect(await lastUsage()).toContain('"action":"failed"');
      }
    });

    testOnce("a hook that is late counts as failed", async () => {
      const never = Promise.withResolvers<Response>();
      hook.respondWith(() => never.promise);
      await saveHook({ phases: ["input"], timeout_ms: 100 });
      const denied = await postCall(gateway, account, "chat", bodyOf("chat", "Hello."));
      expect([denied.status, await denied.text()]).toEqual([
        403,
        expect.stringContaining("within 0.1"),
      ]);
      never.resolve(Response.json({ action: "allow" }));
    });

    test("the audit log has no path of the hook", async () => {
      await saveHook();
      const audit = await send("GET", "/v1/audit?limit=5");
      expect(audit.text).toContain("guardrail.saved");
      expect(audit.text).not.toContain("secret=1");
      expect(isObject(audit.json)).toBe(true);
    });
  });
});
