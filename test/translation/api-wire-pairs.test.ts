// The official clients, unmodified, over every pair of API and wire.

import { afterAll, describe, expect, test } from "bun:test";
import { generateText, jsonSchema, Output, streamText, tool } from "ai";
import { checkExchanges } from "./support/check-exchanges.ts";
import {
  aiModel,
  APIS,
  callApi,
  expensiveModelOn,
  modelOn,
  minimalBody,
  recordedExchanges,
  startHarness,
  type Wire,
  WIRES,
} from "./support/harness.ts";
import { createSdkClients } from "./support/sdk-clients.ts";

/** Models without JSON schema support that reason by budget. */
const OLDER_MODELS = [
  olderModel("messages", "claude-sonnet-4-20250514"),
  olderModel("converse", "anthropic.claude-sonnet-4-20250514-v1:0"),
  olderModel("gemini", "gemini-2.5-flash"),
];

function olderModel(wire: Wire, name: string) {
  return {
    id: `on-${wire}/older`,
    name,
    wires: [wire],
    max_output_tokens: 32_000,
    supported: ["tools", "reasoning"],
    pricing: { tokens: { input: "1", output: "1" } },
  };
}

const harness = await startHarness({ models: OLDER_MODELS });
afterAll(async () => {
  await checkExchanges(harness, "official clients on 15 pairs");
  await harness.stop();
});

const CITY = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
  additionalProperties: false,
} as const;
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

for (const api of APIS)
  for (const wire of WIRES)
    describe(`${api} to ${wire}`, () => {
      const model = modelOn(wire);
      const client = () => createSdkClients(harness)[api];

      test("returns the same text streamed or not", async () => {
        const prompt = { model, text: "hello there" };
        const reply = await client().complete(prompt);
        expect(reply).toMatchObject({ text: "You said: hello there", finish: "stop", calls: [] });
        const streamed = await client().stream(prompt);
        expect({ ...streamed, raw: undefined }).toEqual({ ...reply, raw: undefined });
        expect(reply.usage.output).toBe(6);
      });

      test("streams chunk by chunk", async () => {
        const streamed = await client().stream({
          model,
          text: "[[sim: tokens=30 chunks=10]] hello",
        });
        expect(streamed.usage.output).toBe(30);
        await recordedExchanges();
        const deltas = harness.exchanges.at(-1)?.text.match(/"(content|delta|text)":"[^"]/g) ?? [];
        expect(deltas.length).toBeGreaterThanOrEqual(10);
      });

      test("truncates at the output limit", async () => {
        const reply = await client().complete({
          model,
          text: "[[sim: tokens=300]] hello",
          maxTokens: 20,
        });
        expect(reply.finish).toBe("length");
        expect(reply.usage.output).toBe(20);
      });

      for (const method of ["complete", "stream"] as const)
        test(`calls tools and replies to their results (${method})`, async () => {
          const forced = await client()[method]({
            model,
            text: "what is the weather",
            tools: { weather: CITY },
            toolChoice: "required",
          });
          expect(forced.finish).toBe("tool_calls");
          expect(forced.calls).toMatchObject([
            { name: "weather", arguments: { days: expect.any(Number) } },
          ]);
          const parallel = await client()[method]({
            model,
            text: "use weather and clock, both",
            tools: { weather: CITY, clock: CITY },
          });
          expect(parallel.calls.map((call) => call.name).toSorted()).toEqual(["clock", "weather"]);
          expect(new Set(parallel.calls.map((call) => call.id)).size).toBe(2);
          const answered = await client()[method]({
            model,
            text: "use weather and clock, both",
            tools: { weather: CITY, clock: CITY },
            previousReply: parallel,
            toolResults: ["sunny", "noon"],
          });
          expect(answered.text).toContain("noon");
          expect(answered.finish).toBe("stop");
        });

      test("returns structured output as text", async () => {
        for (const method of ["complete", "stream"] as const) {
          const reply = await client()[method]({ model, text: "weather", schema: CITY });
          expect(JSON.parse(reply.text)).toEqual({
            city: expect.any(String),
            days: expect.any(Number),
          });
          expect([reply.finish, reply.calls]).toEqual(["stop", []]);
        }
      });

      test("sends an image as base64", async () => {
        const reply = await client().complete({ model, text: "look", image: PIXEL });
        expect(reply.text).toContain("look");
        expect(JSON.stringify(harness.upstreamRequests.at(-1)?.body)).toContain(PIXEL);
      });

      test("requests, returns and counts reasoning", async () => {
        for (const method of ["complete", "stream"] as const) {
          const reply = await client()[method]({ model, text: "why", effort: "low" });
          expect(reply.text).toContain("why");
          // Chat cannot request a summary, without which Responses returns none.
          if (!(api === "chat" && wire === "responses")) expect(reply.reasoning).not.toBe("");
          if (api !== "messages" && wire !== "messages" && wire !== "converse")
            expect(reply.usage.reasoning).toBeGreaterThan(0);
        }
      });

      test("returns errors with the API's status", async () => {
        const status = (text: string) => client().status({ model, text });
        expect(
          await createSdkClients(harness, "pst-rt-nonsense")[api].status({ model, text: "x" }),
        ).toBe(401);
        expect(
          await createSdkClients(harness, harness.unfundedAccount.key)[api].status({
            model: expensiveModelOn(wire),
            text: "x",
          }),
        ).toBe(402);
        expect(await client().status({ model: "on-chat/none", text: "x" })).toBe(404);
        expect(await status("[[sim: status=429 retry-after=9]] x")).toBe(429);
        expect(await status("[[sim: status=400]] x")).toBe(400);
        expect(await status("[[sim: status=404]] x")).toBe(404);
        expect(await status("[[sim: status=401]] x")).toBe(503);
      });

      test("ends a stream that the provider interrupts with an error", async () => {
        for (const directive of ["fail=3", "cut=3"]) {
          const error = await client()
            .stream({ model, text: `[[sim: tokens=30 chunks=10 ${directive}]] x` })
            .then(
              () => undefined,
              (caught: unknown) => caught,
            );
          expect([directive, error]).toEqual([directive, expect.any(Error)]);
        }
      });

      test("works with the ai package", async () => {
        const ai = () => aiModel(harness, api, model);
        const text = await generateText({ model: ai(), prompt: "hello", maxRetries: 0 });
        expect(text.text).toBe("You said: hello");
        expect(text.usage.outputTokens).toBe(4);
        const stream = streamText({
          model: ai(),
          prompt: "[[sim: tokens=30 chunks=10]] hello",
          maxRetries: 0,
        });
        let chunks = 0;
        for await (const _ of stream.textStream) chunks += 1;
        expect(chunks).toBeGreaterThan(3);
        expect([await stream.finishReason, (await stream.usage).outputTokens]).toEqual([
          "stop",
          30,
        ]);
        const called = await generateText({
          model: ai(),
          prompt: "use the weather tool",
          toolChoice: "required",
          tools: {
            weather: tool({
              description: "the weather",
              inputSchema: jsonSchema<{ city: string; days: number }>({
                ...CITY,
                required: [...CITY.required],
              }),
            }),
          },
          maxRetries: 0,
        });
        expect(called.toolCalls[0]).toMatchObject({
          toolName: "weather",
          input: { days: expect.any(Number) },
        });
        const object = await generateText({
          model: ai(),
          prompt: "weather",
          output: Output.object({
            schema: jsonSchema<{ city: string; days: number }>({
              ...CITY,
              required: [...CITY.required],
            }),
          }),
          maxRetries: 0,
        });
        expect(object.output).toMatchObject({
          city: expect.any(String),
          days: expect.any(Number),
        });
      });
    });

describe("older models", () => {
  for (const { id: model } of OLDER_MODELS)
    for (const api of APIS) {
      if (model.startsWith(`on-${api}`)) continue;
      for (const method of ["complete", "stream"] as const)
        test(`${model} over ${api} (${method}) returns an object and takes a thinking budget`, async () => {
          const client = createSdkClients(harness)[api];
          const reply = await client[method]({ model, text: "weather", schema: CITY });
          expect(JSON.parse(reply.text)).toMatchObject({ days: expect.any(Number) });
          expect([reply.finish, reply.calls]).toEqual(["stop", []]);
          // With other tools, the model may call one of them instead.
          const called = await client[method]({
            model,
            text: "use clock",
            schema: CITY,
            tools: { clock: CITY },
          });
          expect(["stop", "tool_calls"]).toContain(called.finish);
          const thought = await client[method]({ model, text: "why", effort: "high" });
          expect(thought.reasoning).not.toBe("");
          expect(JSON.stringify(harness.upstreamRequests.at(-1)?.body)).toMatch(
            /"(budget_tokens|thinkingBudget)":\d{4}/,
          );
        });
    }
});

describe("a provider error mid-stream", () => {
  for (const api of ["responses", "messages"] as const)
    test(`over ${api} does not reveal the gateway's account`, async () => {
      const secret = "sk-abcdefgh1jklmnop";
      harness.providerResponse = () =>
        new Response(
          [
            'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"He"},"finish_reason":null}]}',
            `data: {"error":{"message":"Key ${secret} of org-abcdefghijkl is over its limit","code":"server_error"}}`,
            "",
          ].join("\n\n"),
          { headers: { "content-type": "text/event-stream" } },
        );
      const response = await callApi(harness, api, {
        ...minimalBody(api, "chat", "x"),
        stream: true,
      });
      harness.providerResponse = undefined;
      expect(response.text).toContain("is over its limit");
      expect(response.text).not.toContain(secret);
    });
});
