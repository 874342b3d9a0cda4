// Conversations that continue by `previous_response_id`, with every provider and wire, streamed or not.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  errorOf,
  expectSettledLedger,
  type Json,
  lastSimulatorRequest,
} from "../inference/support/harness.ts";
import { casesOn } from "../support/full.ts";
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
  providerRequestBody,
  fundedAccount,
  textOf,
} from "./harness.ts";

const WEATHER_TOOL = {
  type: "function",
  name: "weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  strict: false,
};

const REQUEST_VARIANTS: Readonly<Record<string, Json>> = {
  "not streamed": {},
  streamed: { stream: true },
  "in the background": { background: true },
};

/** The conversation in a provider request of any wire. */
function sentText(body: Json): string {
  return JSON.stringify(body["input"] ?? body["messages"] ?? body["contents"]);
}

for (const store of STORE_KINDS) {
  describe(`previous_response_id on ${store}`, () => {
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

    for (const [wire, model] of casesOn(store, Object.entries(MODELS)))
      for (const streams of [
        [false, false, false],
        [true, true, true],
        [true, false, true],
      ])
        test(`sends all three turns to ${wire}, streamed as ${streams.join(", ")}`, async () => {
          let previous: unknown;
          for (const [turn, stream] of streams.entries()) {
            const response = await createResponse(gateway, account, {
              model,
              input: `turn number ${turn}`,
              stream,
              store: true,
              ...(previous === undefined ? {} : { previous_response_id: previous }),
            });
            expect(response["status"]).toBe("completed");
            expect(response["store"]).toBe(true);
            expect(response["previous_response_id"] ?? undefined).toBe(previous as string);
            expect(textOf(response)).toBe(`You said: turn number ${turn}`);
            expect(String(response["id"])).toMatch(/^resp_[0-9a-z]{26}$/);
            const stored = await getResponse(gateway, account, response["id"]);
            expect(stored.json).toEqual(response);
            previous = response["id"];
          }
          const body = await providerRequestBody(gateway);
          const text = sentText(body);
          const positions = [
            "turn number 0",
            "You said: turn number 0",
            "turn number 1",
            "You said: turn number 1",
            "turn number 2",
          ].map((words) => text.indexOf(words));
          expect(positions).toEqual(positions.toSorted((left, right) => left - right));
          expect(positions).not.toContain(-1);
          expect(body["previous_response_id"]).toBeUndefined();
          expect(body["store"] ?? false).toBe(false);
          expect(text).not.toContain('"id":');
        });

    test("explains at a provider without web search how to turn it off in Codex", async () => {
      const answer = await call(gateway, account, "POST /v1/responses", {
        body: { model: MODELS.chat, input: "hi", tools: [{ type: "web_search" }] },
      });
      expect(answer.status).toBe(400);
      expect(errorOf(answer.json)["param"]).toStartWith("tools");
      expect(errorOf(answer.json)["message"]).toContain('web_search = "disabled"');
    });

    for (const wire of casesOn(store, ["messages", "gemini", "chat"] as const))
      for (const [variant, fields] of Object.entries(REQUEST_VARIANTS))
        test(`continues after a call of the client's shell on ${wire} (${variant})`, async () => {
          const common = {
            model: MODELS[wire],
            tools: [{ type: "shell" }],
            store: true,
            ...fields,
          };
          const first = await createResponse(gateway, account, {
            ...common,
            input: "Use the tool.",
          });
          const ended = await waitUntilEnded(gateway, account, first["id"]);
          const output = ended["output"] as readonly Json[];
          const shellCall = output.find(({ type }) => type === "shell_call");
          expect(shellCall).toMatchObject({ action: { commands: [expect.any(String)] } });
          const result = {
            type: "shell_call_output",
            call_id: shellCall?.["call_id"],
            output: [{ stdout: "two files", stderr: "", outcome: { type: "exit", exit_code: 0 } }],
          };
          const next = await createResponse(gateway, account, {
            ...common,
            input: [result],
            previous_response_id: first["id"],
          });
          const answered = await waitUntilEnded(gateway, account, next["id"]);
          expect(answered["status"]).toBe("completed");
          const body = JSON.stringify(await providerRequestBody(gateway));
          expect(body).toContain("two files");
          expect(body).not.toContain("shell_call");
        });

    for (const wire of casesOn(store, ["messages", "gemini", "chat"] as const))
      for (const [variant, fields] of Object.entries(REQUEST_VARIANTS))
        test(`keeps the namespace of a call on ${wire} (${variant})`, async () => {
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
            ...fields,
          });
          const ended = await waitUntilEnded(gateway, account, first["id"]);
          const output = ended["output"] as readonly Json[];
          const functionCall = output.find(({ type }) => type === "function_call");
          expect(functionCall).toMatchObject({ name: "weather", namespace: "sea" });
          expect(ended["tools"]).toMatchObject(tools);
          const next = await createResponse(gateway, account, {
            model,
            input: [
              {
                type: "function_call_output",
                call_id: functionCall?.["call_id"],
                output: "rain",
              },
            ],
            tools,
            previous_response_id: first["id"],
          });
          expect(textOf(next)).toContain("rain");
          const text = sentText(await providerRequestBody(gateway));
          expect(text).toContain('"sea__weather"');
          expect(text).not.toContain("namespace");
        });

    for (const [wire, model] of casesOn(store, Object.entries(MODELS)))
      test(`sends ${wire} the result of a tool call of the previous turn`, async () => {
        const first = await createResponse(gateway, account, {
          model,
          input: "What is the weather in Rome?",
          tools: [WEATHER_TOOL],
          tool_choice: "required",
          store: true,
        });
        const items = first["output"] as readonly Json[];
        const functionCall = items.find(({ type }) => type === "function_call");
        expect(functionCall).toBeDefined();
        const second = await createResponse(gateway, account, {
          model,
          input: [
            {
              type: "function_call_output",
              call_id: functionCall?.["call_id"],
              output: "sunny, 21",
            },
          ],
          tools: [WEATHER_TOOL],
          stream: true,
          store: true,
          previous_response_id: first["id"],
        });
        expect(second["status"]).toBe("completed");
        const text = sentText(await providerRequestBody(gateway));
        expect(text.indexOf("weather in Rome")).toBeGreaterThan(-1);
        expect(text.indexOf("sunny, 21")).toBeGreaterThan(text.indexOf("weather in Rome"));
      });

    test("continues a conversation with other providers", async () => {
      let previous: unknown;
      for (const [turn, model] of [...Object.values(MODELS), MODELS.responses].entries()) {
        const response = await createResponse(gateway, account, {
          model,
          input: `turn ${turn} [[sim: reasoning=20]]`,
          reasoning: model.includes("llama") ? undefined : { effort: "low" },
          store: true,
          ...(previous === undefined ? {} : { previous_response_id: previous }),
        });
        expect(response["status"]).toBe("completed");
        previous = response["id"];
      }
      const text = sentText(await providerRequestBody(gateway));
      for (const turn of [0, 1, 2, 3, 4, 5]) expect(text).toContain(`turn ${turn}`);
      // Encrypted reasoning of other providers is not sent: this one could not decrypt it.
      expect(text).not.toContain("pst1.");
    });

    test("sends encrypted reasoning only to the model that created it", async () => {
      const first = await createResponse(gateway, account, {
        model: "openai/gpt-5-mini",
        input: "[[sim: reasoning=40]] think",
        store: true,
      });
      expect(JSON.stringify(first["output"])).toContain("encrypted_content");
      const continueWith = async (model: string): Promise<readonly Json[]> => {
        await createResponse(gateway, account, {
          model,
          input: "and now?",
          previous_response_id: first["id"],
        });
        return (await providerRequestBody(gateway))["input"] as readonly Json[];
      };
      const same = (await continueWith("openai/gpt-5-mini")).map(({ type }) => type);
      expect(same).toEqual(["message", "reasoning", "message", "message"]);
      const dropped = await call(gateway, account, "POST /v1/responses", {
        body: { model: "openai/gpt-5", input: "x", previous_response_id: first["id"] },
      });
      expect(dropped.headers.get("x-postern-dropped")).toBe("previous_response_id");
      const other = (await continueWith("openai/gpt-5")).map(({ type }) => type);
      expect(other).toEqual(["message", "message", "message"]);
    });

    test("requests encrypted reasoning only for stored replies of models that reason", async () => {
      const include = ["message.output_text.logprobs"];
      await createResponse(gateway, account, {
        model: "openai/gpt-5-mini",
        input: "x",
        include,
        store: false,
      });
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

    test.each(["expires_at = 1", "account_id = 'acct_other'"])(
      "continues no conversation whose beginning has %s",
      async (change) => {
        const { db } = gateway.server;
        const first = await createResponse(gateway, account, {
          model: MODELS.responses,
          input: "the oldest turn",
        });
        const second = await createResponse(gateway, account, {
          model: MODELS.responses,
          input: "the second turn",
          previous_response_id: first["id"],
        });
        await db.write((tx) =>
          tx.run(`update stored_response set ${change} where id = ?`, [String(first["id"])]),
        );
        const refused = await call(gateway, account, "POST /v1/responses", {
          body: {
            model: MODELS.responses,
            input: "the third turn",
            previous_response_id: second["id"],
          },
        });
        expect(refused.status).toBe(404);
        expect(errorOf(refused.json)).toMatchObject({ code: "previous_response_not_found" });
      },
    );

    test("does not repeat instructions of earlier turns", async () => {
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

    test("does not reformat the caller's JSON", async () => {
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

    test("allows several responses to continue the same one", async () => {
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
        const text = sentText(await providerRequestBody(gateway));
        expect([text.includes("left"), text.includes("right")]).toEqual([
          input === "left",
          input === "right",
        ]);
      }
    });

    test("replaces references by stored items", async () => {
      const first = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "refer to me",
        store: true,
      });
      const [item] = first["output"] as readonly Json[];
      const page = await getResponse(gateway, account, first["id"], "/input_items");
      const [inputItem] = page.json["data"] as readonly Json[];
      await createResponse(gateway, account, {
        model: "sim/echo",
        input: [
          { type: "item_reference", id: inputItem?.["id"] },
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

    test("rejects a reference to an item of another account", async () => {
      const first = await createResponse(gateway, account, {
        model: "sim/echo",
        input: "private text",
        store: true,
      });
      const [item] = first["output"] as readonly Json[];
      const otherAccount = await fundedAccount(gateway);
      const answer = await call(gateway, otherAccount, "POST /v1/responses", {
        body: { model: "sim/echo", input: [{ type: "item_reference", id: item?.["id"] }] },
      });
      expect(answer.status).toBe(400);
      expect(answer.text).not.toContain("private text");
    });

    test("charges the tokens of the whole conversation", async () => {
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

    test("names a wrong field by its path in the caller's request", async () => {
      const first = await createResponse(gateway, account, {
        model: MODELS.messages,
        input: "a",
        store: true,
      });
      const answer = await call(gateway, account, "POST /v1/responses", {
        body: {
          model: MODELS.messages,
          input: [{ type: "message", role: "unknown", content: "x" }],
          previous_response_id: first["id"],
        },
      });
      expect(answer.status).toBe(400);
      expect((answer.json["error"] as Json)["param"]).toBe("input[0].role");
      expect(answer.text).not.toContain("input[2]");
    });

    test.each(["newline=crlf", "newline=cr", "slice=3", "newline=crlf slice=1", "keepalive"])(
      "stores streams with any framing (%s)",
      async (directives) => {
        const answer = await call(gateway, account, "POST /v1/responses", {
          body: {
            model: "sim/echo",
            input: `[[sim: ${directives} chunks=5 text="zwölf 😀 words"]] x`,
            stream: true,
            store: true,
          },
        });
        const id = /"id":"(resp_[0-9a-z]{26})"/.exec(answer.text)?.[1];
        const stored = await getResponse(gateway, account, id);
        expect(stored.status).toBe(200);
        expect(textOf(stored.json)).toBe("zwölf 😀 words");
      },
    );

    test("has the same id in all events of a stream", async () => {
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

    test("works with the caller's own key, without storage at the provider", async () => {
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

    test("passes provider-side references through with the caller's own key, and stores nothing", async () => {
      const owner = await fundedAccount(gateway);
      await call(gateway, owner, "POST /v1/provider-keys", {
        body: { provider: "openai", api_key: "sk-test-0123456789abcdef", allow_store: true },
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

    test("passes provider-side conversations through with the caller's own key, and rejects them on another wire", async () => {
      const owner = await fundedAccount(gateway);
      for (const provider of ["openai", "anthropic"])
        await call(gateway, owner, "POST /v1/provider-keys", {
          body: { provider, api_key: "sk-ant-api03-0123456789abcdef", allow_store: true },
        });
      for (const fields of [{ conversation: "conv_1" }, { conversation: "conv_1", store: true }]) {
        const answer = await call(gateway, owner, "POST /v1/responses", {
          body: { model: MODELS.responses, input: "x", ...fields },
        });
        expect([answer.status, answer.headers.get("x-postern-byok")]).toEqual([200, "true"]);
        const { model: _model, input: _input, ...sent } = await providerRequestBody(gateway);
        expect(sent).toEqual(fields);
        // Stored at the provider, not here.
        const stored = await getResponse(gateway, owner, String(answer.json["id"]));
        expect(stored.status).toBe(404);
      }
      const other = await call(gateway, owner, "POST /v1/responses", {
        body: { model: MODELS.messages, input: "x", conversation: "conv_1" },
      });
      expect([other.status, errorOf(other.json)["param"]]).toEqual([400, "conversation"]);
    });
  });
}
