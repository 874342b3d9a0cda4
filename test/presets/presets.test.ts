// Presets: settings of model calls under a name, with versions.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  bodyOf,
  type Caller,
  errorOf,
  grantCredits,
  type Json,
  lastSimulatorRequest,
  postCall,
  STREAMED_APIS,
  USD,
  withHeaders,
} from "../inference/support/harness.ts";
import { casesOn, testOn } from "../support/full.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const SETTINGS = {
  model: "sim/echo",
  system: "You review code.",
  temperature: 0.2,
  top_p: 0.9,
  max_output_tokens: 321,
};
const SAFETY = {
  safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
};

describeEachStore((store) => {
  const testOnce = testOn(store);
  let gateway: Gateway;
  let account: Caller;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
  });
  afterAll(() => gateway.stop());

  async function send(method: string, path: string, body?: Json, caller: Caller = account) {
    const response = await fetch(`${gateway.url}${path}`, {
      method,
      headers: caller.headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    // Safe: the routes of presets respond with JSON objects.
    const json = (await response.json()) as Json;
    return { status: response.status, json, text: JSON.stringify(json) };
  }
  const save = (name: string, settings: Json, caller?: Caller) =>
    send("POST", `/v1/presets/${name}`, settings, caller);

  describe(`POST /v1/presets/{name} on ${store}`, () => {
    test("saves a version, and none for the same settings", async () => {
      const first = await save("versions", SETTINGS);
      expectStatus("savePreset", 200, first);
      expect(first.json).toMatchObject({ name: "versions", version: 1, settings: SETTINGS });
      expect((await save("versions", SETTINGS)).json["version"]).toBe(1);
      expect((await save("versions", { ...SETTINGS, temperature: 0 })).json["version"]).toBe(2);
    });

    test("refuses settings and names that it does not know", async () => {
      for (const settings of [
        { models: [] },
        { temperature: 3 },
        { max_output_tokens: 0 },
        { modle: "sim/echo" },
        { fields: { smtp: {} } },
        { fields: { chat: { stream: true } } },
        { fields: { responses: { background: true } } },
      ])
        expectStatus("savePreset", 400, await save("wrong", settings));
      expectStatus("savePreset", 400, await save("Upper%20case", SETTINGS));
      const large = { fields: { chat: { text: "x".repeat(70_000) } } };
      expectStatus("savePreset", 413, await save("large", large));
    });

    test("needs the scope account:write", async () => {
      const narrow = await narrowKey();
      expectStatus("savePreset", 403, await save("narrow", SETTINGS, narrow));
    });

    test("keeps 100 versions and 200 presets", async () => {
      const caller = await registerAccount(gateway);
      for (let index = 0; index < 102; index++)
        await save("busy", { max_output_tokens: index + 1 }, caller);
      const oldest = await send("GET", "/v1/presets/busy?version=2", undefined, caller);
      expectStatus("getPreset", 404, oldest);
      expect((await send("GET", "/v1/presets/busy?version=3", undefined, caller)).status).toBe(200);
      for (let index = 0; index < 199; index++) await save(`p${index}`, {}, caller);
      expectStatus("savePreset", 409, await save("one-more", {}, caller));
      expect((await save("p1", { system: "x" }, caller)).status).toBe(200);
    });

    test("keeps 16 million characters of a workspace", async () => {
      const caller = await registerAccount(gateway);
      const stored = JSON.stringify({ system: "x".repeat(16_777_000) });
      await gateway.server.db.write((tx) =>
        tx.run(
          "insert into preset (account_id, name, version, created_at, settings) values (?, 'big', 1, 0, ?)",
          [caller.id, stored],
        ),
      );
      expect((await save("small", { system: "x" }, caller)).status).toBe(200);
      const full = await save("more", { system: "x".repeat(1_000) }, caller);
      expectStatus("savePreset", 409, full);
      expect(full.text).toContain("16777216 characters");
    });
  });

  describe(`GET /v1/presets on ${store}`, () => {
    test("lists the newest versions of this workspace alone", async () => {
      const caller = await registerAccount(gateway);
      await save("b", { system: "one" }, caller);
      await save("b", { system: "two" }, caller);
      await save("a", {}, caller);
      const list = await send("GET", "/v1/presets", undefined, caller);
      expectStatus("listPresets", 200, list);
      expect(list.json["data"]).toMatchObject([
        { name: "a", version: 1 },
        { name: "b", version: 2, settings: { system: "two" } },
      ]);
    });
  });

  describe(`GET /v1/presets/{name} on ${store}`, () => {
    test("returns the newest version, or the one that is named", async () => {
      await save("read", { system: "one" });
      await save("read", { system: "two" });
      const newest = await send("GET", "/v1/presets/read");
      expectStatus("getPreset", 200, newest);
      expect(newest.json["version"]).toBe(2);
      const first = await send("GET", "/v1/presets/read?version=1");
      expect(first.json["settings"]).toEqual({ system: "one" });
      const stranger = await registerAccount(gateway);
      expectStatus("getPreset", 404, await send("GET", "/v1/presets/read", undefined, stranger));
      expectStatus("getPreset", 400, await send("GET", "/v1/presets/read?version=0"));
    });
  });

  describe(`DELETE /v1/presets/{name} on ${store}`, () => {
    test("refuses a name that no preset can have", async () => {
      expectStatus("deletePreset", 400, await send("DELETE", "/v1/presets/Upper"));
      expectStatus("listPresets", 400, await send("GET", "/v1/presets?limit=5"));
    });

    test("deletes all versions", async () => {
      await save("gone", {});
      const stranger = await registerAccount(gateway);
      expectStatus(
        "deletePreset",
        404,
        await send("DELETE", "/v1/presets/gone", undefined, stranger),
      );
      expectStatus(
        "deletePreset",
        403,
        await send("DELETE", "/v1/presets/gone", undefined, await narrowKey()),
      );
      expectStatus("deletePreset", 200, await send("DELETE", "/v1/presets/gone"));
      expect((await call({ model: "@preset/gone" })).status).toBe(404);
    });
  });

  describe(`a call with a preset on ${store}`, () => {
    for (const api of casesOn(store, STREAMED_APIS))
      test(`gets what it does not state itself: ${api}`, async () => {
        await save(`full-${api}`, SETTINGS);
        const { status, preset } = await call({ model: `@preset/full-${api}` }, api);
        expect([status, preset]).toEqual([200, `full-${api}@1`]);
        const sent = await sentBody();
        expect(sent).toMatchObject({ model: "echo", temperature: 0.2, top_p: 0.9 });
        expect(JSON.stringify(sent)).toContain("You review code.");
        expect(JSON.stringify(sent)).toContain("321");
        await call({ model: `@preset/full-${api}`, temperature: 1, max_tokens: 50 }, api);
        expect(await sentBody()).toMatchObject({ temperature: 1 });
      });

    testOnce("puts its system text before that of the call", async () => {
      await save("texts", { model: "sim/echo", system: "First." });
      await call({ model: "@preset/texts", instructions: "Second." }, "responses");
      expect((await sentBody())["instructions"]).toBe("First.\n\nSecond.");
      await call(
        {
          model: "@preset/texts",
          max_tokens: 50,
          system: [{ type: "text", text: "Second." }],
        },
        "messages",
      );
      expect((await sentBody())["system"]).toEqual([
        { type: "text", text: "First." },
        { type: "text", text: "Second." },
      ]);
    });

    testOnce("gets what it does not state itself: gemini", async () => {
      await save("google", { ...SETTINGS, reasoning_effort: "low", fields: { gemini: SAFETY } });
      const contents = [{ role: "user", parts: [{ text: "Hello" }] }];
      const google = (body: Json, operation = "generateContent") =>
        send("POST", `/v1beta/models/@preset/google:${operation}`, { contents, ...body });
      expect((await google({})).status).toBe(200);
      const sampling = { temperature: 0.2, topP: 0.9, maxOutputTokens: 321 };
      expect(await sentBody()).toEqual({
        ...SAFETY,
        contents,
        systemInstruction: { parts: [{ text: SETTINGS.system }] },
        generationConfig: { ...sampling, thinkingConfig: { thinkingLevel: "LOW" } },
      });
      const stated = {
        system_instruction: { parts: { text: "Be brief." } },
        generation_config: { temperature: 1, thinking_config: { thinking_budget: 10_000 } },
      };
      expect((await google(stated)).status).toBe(200);
      expect((await sentBody())["generationConfig"]).toEqual({
        ...sampling,
        temperature: 1,
        thinkingConfig: { thinkingBudget: 10_000 },
      });
      const sent = JSON.stringify(await sentBody());
      expect(sent.indexOf("You review code.")).toBeLessThan(sent.indexOf("Be brief."));
      expect((await google({}, "countTokens")).json["totalTokens"]).toBeGreaterThan(3);
      const missing = await send("POST", "/v1beta/models/@preset/none:generateContent", {
        contents,
      });
      expect(missing.status).toBe(404);
    });

    testOnce("adds the fields of its API", async () => {
      const tools = [{ type: "function", function: { name: "look_up", parameters: {} } }];
      await save("tools", { model: "sim/echo", fields: { chat: { tools, stop: ["END"] } } });
      await call({ model: "@preset/tools", stop: ["STOP"] });
      expect(await sentBody()).toMatchObject({ tools, stop: ["STOP"] });
      await call({ model: "@preset/tools", max_tokens: 50 }, "messages");
      expect((await sentBody())["tools"]).toBeUndefined();
    });

    testOnce("keeps integers beyond 2^53 and the bytes of what it does not set", async () => {
      await save("digits", { model: "sim/echo", system: "Brief.", temperature: 0.2 });
      const maximum = "18446744073709551615";
      const parameters = `{"type":"object", "properties":{"n":{"type":"integer","maximum":${maximum}}}}`;
      const post = (path: string, body: string) =>
        fetch(gateway.url + path, { method: "POST", headers: account.headers, body });
      const tools = `"tools" : [ {"type":"function","function":{"name":"f","parameters":${parameters}}} ]`;
      const chat = await post(
        "/v1/chat/completions",
        `{"model":"@preset/digits","messages":[ {"role":"user","content":"caf\\u00e9"}],"seed" : 9007199254740993, ${tools}}`,
      );
      expect(chat.status).toBe(200);
      const { body } = await lastSimulatorRequest(gateway);
      expect(body).toContain(tools);
      expect(body).toContain('"seed" : 9007199254740993');
      expect(body).toContain('{"role":"user","content":"caf\\u00e9"}');
      expect(JSON.parse(body)).toMatchObject({ model: "echo", temperature: 0.2 });
      for (const [model, names] of [
        ["@preset/digits", ["function_declarations", "generation_config"]],
        ["sim/echo", ["function_declarations", "generation_config"]],
        ["@preset/digits", ["functionDeclarations", "generationConfig"]],
      ] as const) {
        const google = await post(
          `/v1beta/models/${model}:generateContent`,
          `{"contents":[{"parts":[{"text":"Hi"}]}], "tools":{"${names[0]}":[{"name":"f","parameters":${parameters}}]},"${names[1]}":{"top_p":0.50}}`,
        );
        expect(google.status).toBe(200);
        const sent = (await lastSimulatorRequest(gateway)).body;
        expect(sent).toContain(`"parameters":${parameters}`);
        expect(sent).toContain('"topP":0.50');
      }
    });

    test("can name a version, or another model", async () => {
      await save("forms", { model: "sim/echo", system: "one" });
      await save("forms", { model: "sim/tiny", system: "two" });
      expect((await call({ model: "@preset/forms@1" })).preset).toBe("forms@1");
      expect((await sentBody())["model"]).toBe("echo");
      expect((await call({ model: "@preset/forms" })).preset).toBe("forms@2");
      expect((await sentBody())["model"]).toBe("tiny");
      expect((await call({ model: "sim/echo@preset/forms" })).preset).toBe("forms@2");
      expect((await sentBody())["model"]).toBe("echo");
    });

    test("never does what its key may not", async () => {
      await save("wide", { model: "sim/echo", models: ["sim/echo"] });
      const narrow = await narrowKey();
      const refused = await call({ model: "@preset/wide" }, "chat", narrow);
      expect(refused.status).toBe(403);
    });

    test("is a 404 without that preset or version, and a 400 in another form or API", async () => {
      await save("known", SETTINGS);
      for (const model of ["@preset/none", "@preset/known@7"]) {
        const missing = await call({ model });
        expect([missing.status, errorOf(missing.json)["param"]]).toEqual([404, "model"]);
      }
      expect((await call({ model: "@preset/No such" })).status).toBe(400);
      expect((await call({ model: "@preset/known", input: "x" }, "embeddings")).status).toBe(400);
    });

    test("is quoted and counted like the call", async () => {
      await save("quoted", SETTINGS);
      const messages = [{ role: "user", content: "Hello" }];
      const quote = await send("POST", "/v1/quote", { model: "@preset/quoted", messages });
      expect(quote.json).toMatchObject({ model: "sim/echo", output_tokens_max: 321 });
      const count = await send("POST", "/v1/messages/count_tokens", {
        model: "@preset/quoted",
        messages,
      });
      expect(count.status).toBe(200);
    });

    testOnce("is a 400 if its body is nested too deeply", async () => {
      await save("deep", SETTINGS);
      const nested = "[".repeat(50_000) + "]".repeat(50_000);
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: account.headers,
        body: `{"model":"@preset/deep","messages":[{"role":"user","content":"Hi"}],"x":${nested}}`,
      });
      expect([response.status, await response.text()]).toEqual([
        400,
        expect.stringContaining("nesting levels"),
      ]);
    });

    test("is not kept in the response cache, because it can change", async () => {
      await save("cached", SETTINGS);
      const headers = { "x-postern-cache": "60" };
      const { cache } = await call(
        { model: "@preset/cached" },
        "chat",
        withHeaders(account, headers),
      );
      expect(cache).toBe("bypass");
    });
  });

  async function narrowKey(): Promise<Caller> {
    const created = await send("POST", "/v1/keys", { allowed_models: ["sim/tiny"] });
    return withHeaders(account, { authorization: `Bearer ${String(created.json["api_key"])}` });
  }
  async function call(
    more: Json,
    api: "chat" | "responses" | "messages" | "embeddings" = "chat",
    caller: Caller = account,
  ) {
    const { max_tokens: _, max_output_tokens: __, ...body } = bodyOf(api, "Hello", {});
    const response = await postCall(gateway, caller, api, { ...body, ...more });
    // Safe: these calls are not streamed.
    const json = (await response.json()) as Json;
    const { status, headers } = response;
    return {
      status,
      json,
      preset: headers.get("x-postern-preset"),
      cache: headers.get("x-postern-cache"),
    };
  }
  async function sentBody(): Promise<Json> {
    return JSON.parse((await lastSimulatorRequest(gateway)).body) as Json;
  }
});
