// A conversation goes on by the id of a stored response: with every provider, on every wire, streamed or not.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  errorOf,
  expectSettledLedger,
  type Json,
  lastSimulatorRequest,
} from "../inference/support/harness.ts";
import { type TestAccount, type Gateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  call,
  createResponse,
  waitUntilEnded,
  eventsOf,
  getResponse,
  MODELS,
  openGateway,
  fundedAccount,
  textOf,
} from "./harness.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const WEATHER_TOOL = {
  type: "function",
  name: "weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  strict: false,
};

const REQUEST_VARIANTS: Readonly<Record<string, Json>> = {
  whole: {},
  streamed: { stream: true },
  "in the background": { background: true },
};

/** Everything that was said, in the order in which a provider was told it, whatever its wire. */
function sentText(body: Json): string {
  return JSON.stringify(body["input"] ?? body["messages"] ?? body["contents"]);
}

async function providerRequestBody(gateway: Gateway): Promise<Json> {
  return JSON.parse((await lastSimulatorRequest(gateway)).body) as Json;
}

for (const store of STORE_KINDS) {
  describe(`going on from a stored response on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await openGateway({ store });
      account = await fundedAccount(gateway);
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    for (const [wire, model] of Object.entries(MODELS))
      for (const streams of [
        [false, false, false],
        [true, true, true],
        [true, false, true],
      ])
        test(`tells ${wire} all of three turns, streamed as ${streams.join(", ")}`, async () => {
          let previous: unknown;
          for (const [place, stream] of streams.entries()) {
            const response = await createResponse(gateway, account, {
              model,
              input: `turn number ${place}`,
              stream,
              store: true,
              ...(previous === undefined ? {} : { previous_response_id: previous }),
            });
            expect(response["status"]).toBe("completed");
            expect(response["store"]).toBe(true);
            expect(response["previous_response_id"] ?? undefined).toBe(previous as string);
            expect(textOf(response)).toBe(`You said: turn number ${place}`);
            expect(String(response["id"])).toMatch(/^resp_[0-9a-z]{26}$/);
            const kept = await getResponse(gateway, account, response["id"]);
            expect(kept.json).toEqual(response);
            previous = response["id"];
          }
          const body = await providerRequestBody(gateway);
          const said = sentText(body);
          const places = [
            "turn number 0",
            "You said: turn number 0",
            "turn number 1",
            "You said: turn number 1",
            "turn number 2",
          ].map((words) => said.indexOf(words));
          expect(places).toEqual(places.toSorted((one, other) => one - other));
          expect(places).not.toContain(-1);
          expect(body["previous_response_id"]).toBeUndefined();
          expect(body["store"] ?? false).toBe(false);
          expect(said).not.toContain('"id":');
        });

    for (const wire of ["messages", "gemini", "chat"] as const)
      test(`says what Codex must be told where ${wire} has no search for it`, async () => {
        const answer = await call(gateway, account, "POST /v1/responses", {
          body: { model: MODELS[wire], input: "hi", tools: [{ type: "web_search" }] },
        });
        expect(answer.status).toBe(400);
        expect(errorOf(answer.json)["param"]).toStartWith("tools");
        expect(errorOf(answer.json)["message"]).toContain('web_search = "disabled"');
      });

    for (const wire of ["messages", "gemini", "chat"] as const)
      for (const [how, said] of Object.entries(REQUEST_VARIANTS))
        test(`keeps the namespace of a call, ${how}, on ${wire}`, async () => {
          const model = MODELS[wire];
          const tools = ["sky", "sea"].map((name) => ({
            type: "namespace",
            name,
            description: `The ${name}.`,
            tools: [WEATHER_TOOL],
          }));
          const first = await createResponse(gateway, account, {
            model,
            input: "How is it?",
            tools,
            tool_choice: { type: "function", name: "weather", namespace: "sea" },
            store: true,
            ...said,
          });
          const kept = await waitUntilEnded(gateway, account, first["id"]);
          const output = kept["output"] as readonly Json[];
          const called = output.find(({ type }) => type === "function_call");
          expect(called).toMatchObject({ name: "weather", namespace: "sea" });
          expect(kept["tools"]).toMatchObject(tools);
          const next = await createResponse(gateway, account, {
            model,
            input: [
              {
                type: "function_call_output",
                call_id: called?.["call_id"],
                output: "rain",
              },
            ],
            tools,
            previous_response_id: first["id"],
          });
          expect(textOf(next)).toContain("rain");
          const told = sentText(await providerRequestBody(gateway));
          expect(told).toContain('"sea__weather"');
          expect(told).not.toContain("namespace");
        });

    for (const [wire, model] of Object.entries(MODELS))
      test(`gives ${wire} the result of a tool that the turn before called`, async () => {
        const asked = await createResponse(gateway, account, {
          model,
          input: "What is the weather in Rome?",
          tools: [WEATHER_TOOL],
          tool_choice: "required",
          store: true,
        });
        const items = asked["output"] as readonly Json[];
        const called = items.find(({ type }) => type === "function_call");
        expect(called).toBeDefined();
        const answered = await createResponse(gateway, account, {
          model,
          input: [
            { type: "function_call_output", call_id: called?.["call_id"], output: "sunny, 21" },
          ],
          tools: [WEATHER_TOOL],
          stream: true,
          store: true,
          previous_response_id: asked["id"],
        });
        expect(answered["status"]).toBe("completed");
        const said = sentText(await providerRequestBody(gateway));
        expect(said.indexOf("weather in Rome")).toBeGreaterThan(-1);
        expect(said.indexOf("sunny, 21")).toBeGreaterThan(said.indexOf("weather in Rome"));
      });

    test("carries a conversation from one provider to the next, and back", async () => {
      let previous: unknown;
      for (const [place, model] of [...Object.values(MODELS), MODELS.responses].entries()) {
        const response = await createResponse(gateway, account, {
          model,
          input: `leg ${place} [[sim: reasoning=20]]`,
          reasoning: model.includes("llama") ? undefined : { effort: "low" },
          store: true,
          ...(previous === undefined ? {} : { previous_response_id: previous }),
        });
        expect(response["status"]).toBe("completed");
        previous = response["id"];
      }
      const said = sentText(await providerRequestBody(gateway));
      for (const place of [0, 1, 2, 3, 4, 5]) expect(said).toContain(`leg ${place}`);
      // What other providers' models thought is sealed, and this one could not open it.
      expect(said).not.toContain("pst1.");
    });

    test("gives reasoning back to the model that made it, and to no other", async () => {
      const first = await createResponse(gateway, account, {
        model: "openai/gpt-5-mini",
        input: "[[sim: reasoning=40]] think",
        store: true,
      });
      expect(JSON.stringify(first["output"])).toContain("encrypted_content");
      const go = async (model: string): Promise<readonly Json[]> => {
        await createResponse(gateway, account, {
          model,
          input: "and now?",
          previous_response_id: first["id"],
        });
        return (await providerRequestBody(gateway))["input"] as readonly Json[];
      };
      const same = (await go("openai/gpt-5-mini")).map(({ type }) => type);
      expect(same).toEqual(["message", "reasoning", "message", "message"]);
      const told = await call(gateway, account, "POST /v1/responses", {
        body: { model: "openai/gpt-5", input: "x", previous_response_id: first["id"] },
      });
      expect(told.headers.get("x-postern-dropped")).toBe("previous_response_id");
      const other = (await go("openai/gpt-5")).map(({ type }) => type);
      expect(other).toEqual(["message", "message", "message"]);
    });

    test("asks a provider that can for encrypted reasoning only where the reply is stored, beside what was asked", async () => {
      const include = ["message.output_text.logprobs"];
      await createResponse(gateway, account, { model: "openai/gpt-5-mini", input: "x", include });
      expect((await providerRequestBody(gateway))["include"]).toEqual(include);
      await createResponse(gateway, account, {
        model: "openai/gpt-5-mini",
        input: "x",
        include,
        store: true,
      });
      expect((await providerRequestBody(gateway))["include"]).toEqual([
        ...include,
        "reasoning.encrypted_content",
      ]);
      await createResponse(gateway, account, {
        model: "openai/gpt-4.1-mini",
        input: "x",
        store: true,
      });
      expect((await providerRequestBody(gateway))["include"]).toBeUndefined();
    });

    test("does not carry instructions over", async () => {
      const first = await createResponse(gateway, account, {
        model: "sim/echo",
        instructions: "Speak like a pirate.",
        input: "hello",
        store: true,
      });
      await createResponse(gateway, account, {
        model: "sim/echo",
        input: "again",
        previous_response_id: first["id"],
      });
      expect((await lastSimulatorRequest(gateway)).body).not.toContain("pirate");
      expect((await lastSimulatorRequest(gateway)).body).toContain("hello");
    });

    test("leaves the bytes of what the caller wrote as they came", async () => {
      const first = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "a",
        store: true,
      });
      const items = '[ {"role":"user","content":"\\u0041 1.0"} , {"role":"user","content":"b"} ]';
      const response = await fetch(`${gateway.url}/v1/responses`, {
        method: "POST",
        headers: account.headers,
        body: `{"model":"sim/echo","seed":1.50e2,"previous_response_id":"${String(first["id"])}","input": ${items}}`,
      });
      expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
      const { body } = await lastSimulatorRequest(gateway);
      expect(body).toContain(`,${items.slice(1, -1).trim()}]`);
      expect(body).toContain('"seed":1.50e2');
    });

    test("branches: two responses may go on from the same one", async () => {
      const first = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "a",
        store: true,
      });
      for (const input of ["left", "right"]) {
        await createResponse(gateway, account, {
          model: "sim/echo",
          input,
          store: true,
          previous_response_id: first["id"],
        });
        const said = sentText(await providerRequestBody(gateway));
        expect([said.includes("left"), said.includes("right")]).toEqual([
          input === "left",
          input === "right",
        ]);
      }
    });

    test("puts a stored item in the place of its reference", async () => {
      const first = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "refer to me",
        store: true,
      });
      const [item] = first["output"] as readonly Json[];
      const page = await getResponse(gateway, account, first["id"], "/input_items");
      const [own] = page.json["data"] as readonly Json[];
      await createResponse(gateway, account, {
        model: "sim/echo",
        input: [
          { type: "item_reference", id: own?.["id"] },
          { id: item?.["id"] },
          { type: "message", role: "user", content: "so?" },
        ],
      });
      const body = await providerRequestBody(gateway);
      expect((body["input"] as readonly Json[]).map(({ role }) => role)).toEqual([
        "user",
        "assistant",
        "user",
      ]);
      expect(sentText(body)).toContain("You said: refer to me");
    });

    test("refuses a reference to another account's item", async () => {
      const first = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "mine alone",
        store: true,
      });
      const [item] = first["output"] as readonly Json[];
      const stranger = await fundedAccount(gateway);
      const answer = await call(gateway, stranger, "POST /v1/responses", {
        body: { model: "sim/echo", input: [{ type: "item_reference", id: item?.["id"] }] },
      });
      expect(answer.status).toBe(400);
      expect(answer.text).not.toContain("mine alone");
    });

    test("holds for the whole conversation, and charges what the provider counted", async () => {
      const first = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "word ".repeat(500),
        store: true,
      });
      const second = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "short",
        previous_response_id: first["id"],
      });
      const tokens = (response: Json): number =>
        Number((response["usage"] as Json)["input_tokens"]);
      expect(tokens(second)).toBeGreaterThan(tokens(first));
    });

    test("names a field of the request itself where it is wrong, not of what came before", async () => {
      const first = await createResponse(gateway, account, {
        model: MODELS.messages,
        input: "a",
        store: true,
      });
      const answer = await call(gateway, account, "POST /v1/responses", {
        body: {
          model: MODELS.messages,
          input: [{ type: "message", role: "nobody", content: "x" }],
          previous_response_id: first["id"],
        },
      });
      expect(answer.status).toBe(400);
      expect((answer.json["error"] as Json)["param"]).toBe("input[0].role");
      expect(answer.text).not.toContain("input[2]");
    });

    test.each(["newline=crlf", "newline=cr", "slice=3", "newline=crlf slice=1", "keepalive"])(
      "stores a stream however it comes (%s)",
      async (order) => {
        const answer = await call(gateway, account, "POST /v1/responses", {
          body: {
            model: "sim/echo",
            input: `[[sim: ${order} chunks=5 text="zwölf 😀 words"]] x`,
            stream: true,
            store: true,
          },
        });
        const id = /"id":"(resp_[0-9a-z]{26})"/.exec(answer.text)?.[1];
        const kept = await getResponse(gateway, account, id);
        expect(kept.status).toBe(200);
        expect(textOf(kept.json)).toBe("zwölf 😀 words");
      },
    );

    test("says our id on every event of a stream that carries the response", async () => {
      for (const model of [MODELS.responses, MODELS.messages]) {
        const answer = await call(gateway, account, "POST /v1/responses", {
          body: { model, input: "x", stream: true, store: true },
        });
        const ids = eventsOf(answer.text).flatMap(({ response }) =>
          response === undefined ? [] : [(response as Json)["id"]],
        );
        expect(ids.length).toBeGreaterThan(1);
        expect(new Set(ids).size).toBe(1);
        expect((await getResponse(gateway, account, ids[0])).status).toBe(200);
      }
    });

    test("goes on with the caller's own key, where nothing is stored at the provider either", async () => {
      const owner = await fundedAccount(gateway);
      const added = await call(gateway, owner, "POST /v1/provider-keys", {
        body: { provider: "openai", api_key: "sk-test-0123456789abcdef" },
      });
      expect(added.status).toBe(201);
      const first = await createResponse(gateway, owner, {
        model: MODELS.responses,
        input: "on my own key",
        store: true,
      });
      const second = await call(gateway, owner, "POST /v1/responses", {
        body: {
          model: MODELS.responses,
          input: "again",
          store: true,
          previous_response_id: first["id"],
        },
      });
      expect(second.headers.get("x-postern-byok")).toBe("true");
      const body = await providerRequestBody(gateway);
      expect(body["store"]).toBe(false);
      expect(sentText(body)).toContain("on my own key");
    });

    test("relays a provider's own references on the caller's own key, and keeps nothing", async () => {
      const owner = await fundedAccount(gateway);
      await call(gateway, owner, "POST /v1/provider-keys", {
        body: { provider: "openai", api_key: "sk-test-0123456789abcdef" },
      });
      await call(gateway, owner, "POST /v1/responses", {
        body: {
          model: MODELS.responses,
          input: "x",
          store: true,
          previous_response_id: "resp_68aa00",
        },
      });
      const body = await providerRequestBody(gateway);
      expect([body["previous_response_id"], body["store"]]).toEqual(["resp_68aa00", true]);
      const rows = await gateway.server.db.all(
        "select id from stored_response where account_id = ?",
        [owner.id],
      );
      expect(rows).toEqual([]);
    });

    test("relays a provider's own conversation on the caller's own key, and refuses it on another wire", async () => {
      const owner = await fundedAccount(gateway);
      for (const provider of ["openai", "anthropic"])
        await call(gateway, owner, "POST /v1/provider-keys", {
          body: { provider, api_key: "sk-ant-api03-0123456789abcdef" },
        });
      for (const more of [{ conversation: "conv_1" }, { conversation: "conv_1", store: true }]) {
        const answer = await call(gateway, owner, "POST /v1/responses", {
          body: { model: MODELS.responses, input: "x", ...more },
        });
        expect([answer.status, answer.headers.get("x-postern-byok")]).toEqual([200, "true"]);
        const { model: _model, input: _input, ...sent } = await providerRequestBody(gateway);
        expect(sent).toEqual(more);
        // It lies where the caller put it, and not here.
        const kept = await getResponse(gateway, owner, String(answer.json["id"]));
        expect(kept.status).toBe(404);
      }
      const other = await call(gateway, owner, "POST /v1/responses", {
        body: { model: MODELS.messages, input: "x", conversation: "conv_1" },
      });
      expect([other.status, errorOf(other.json)["param"]]).toEqual([400, "conversation"]);
    });
  });
}
