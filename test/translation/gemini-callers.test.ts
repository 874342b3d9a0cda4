// Google's SDK, unmodified, over every wire: the row of Gemini in the table of pairs of APIs and wires. Its conversations of two
// turns are in multi-turn.test.ts, and its fields in translation-doc.test.ts.

import { afterAll, describe, expect, test } from "bun:test";
import { expectSettledLedger } from "../inference/support/harness.ts";
import { googleClient } from "./support/google-client.ts";
import {
  callApi,
  errorParam,
  expensiveModelOn,
  type Json,
  modelOn,
  startHarness,
  WIRES,
} from "./support/harness.ts";

const harness = await startHarness();
const client = googleClient(harness);
afterAll(async () => {
  await expectSettledLedger(harness.gateway.server.db);
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

for (const wire of WIRES)
  describe(`gemini to ${wire}`, () => {
    const model = modelOn(wire);

    test("returns the same text streamed or not, with its cost", async () => {
      const prompt = { model, text: "hello there" };
      const reply = await client.complete(prompt);
      expect(reply).toMatchObject({ text: "You said: hello there", finish: "stop", calls: [] });
      const streamed = await client.stream(prompt);
      expect({ ...streamed, raw: undefined }).toEqual({ ...reply, raw: undefined });
      expect(reply.usage.output).toBe(6);
      expect(reply.usage.cost).toBeGreaterThan(0);
    });

    test("truncates at the output limit", async () => {
      const text = "[[sim: tokens=300]] hello";
      for (const method of ["complete", "stream"] as const) {
        const reply = await client[method]({ model, text, maxTokens: 20 });
        expect([reply.finish, reply.usage.output]).toEqual(["length", 20]);
      }
    });

    for (const method of ["complete", "stream"] as const) {
      test(`calls tools and replies to their results (${method})`, async () => {
        const forced = await client[method]({
          model,
          text: "what is the weather",
          tools: { weather: CITY },
          toolChoice: "required",
        });
        expect(forced.calls).toMatchObject([
          { name: "weather", arguments: { days: expect.any(Number) } },
        ]);
        const prompt = {
          model,
          text: "use weather and clock, both",
          tools: { weather: CITY, clock: CITY },
        };
        const parallel = await client[method](prompt);
        expect(parallel.calls.map((call) => call.name).toSorted()).toEqual(["clock", "weather"]);
        const answered = await client[method]({
          ...prompt,
          previousReply: parallel,
          toolResults: ["sunny", "noon"],
        });
        expect(answered.text).toContain("noon");
        expect(answered.finish).toBe("stop");
      });
    }

    test("returns structured output as text", async () => {
      for (const method of ["complete", "stream"] as const) {
        const reply = await client[method]({ model, text: "weather", schema: CITY });
        expect(JSON.parse(reply.text)).toMatchObject({ days: expect.any(Number) });
        expect([reply.finish, reply.calls]).toEqual(["stop", []]);
      }
    });

    test("sends an image as base64", async () => {
      const reply = await client.complete({ model, text: "look", image: PIXEL });
      expect(reply.text).toContain("look");
      expect(JSON.stringify(harness.upstreamRequests.at(-1)?.body)).toContain(PIXEL);
    });

    test("requests, returns and counts reasoning", async () => {
      for (const method of ["complete", "stream"] as const) {
        const reply = await client[method]({ model, text: "why", effort: "low" });
        expect(reply.text).toContain("why");
        expect(reply.reasoning).not.toBe("");
        if (wire !== "messages" && wire !== "converse")
          expect(reply.usage.reasoning).toBeGreaterThan(0);
      }
    });

    test("returns errors with the API's status", async () => {
      const status = (text: string) => client.status({ model, text });
      expect(await googleClient(harness, "pst-rt-nonsense").status({ model, text: "x" })).toBe(401);
      const unfunded = googleClient(harness, harness.unfundedAccount.key);
      expect(await unfunded.status({ model: expensiveModelOn(wire), text: "x" })).toBe(402);
      expect(await client.status({ model: "on-chat/none", text: "x" })).toBe(404);
      expect(await status("[[sim: status=429 retry-after=9]] x")).toBe(429);
      expect(await status("[[sim: status=400]] x")).toBe(400);
      expect(await status("[[sim: status=401]] x")).toBe(503);
    });

    test("ends a stream that the provider interrupts with an error", async () => {
      for (const directive of ["fail=3", "cut=3"]) {
        const error = await client
          .stream({ model, text: `[[sim: tokens=30 chunks=10 ${directive}]] x` })
          .then(
            () => undefined,
            (caught: unknown) => caught,
          );
        expect([directive, error]).toEqual([directive, expect.any(Error)]);
      }
    });
  });

describe("what a provider does not take", () => {
  const HELLO = [{ role: "user", parts: [{ text: "Hello" }] }];
  const droppedOn = async (wire: (typeof WIRES)[number], body: Json) => {
    const response = await callApi(harness, "gemini", { model: modelOn(wire), ...body });
    expect([response.status, response.json["error"]]).toEqual([200, undefined]);
    return {
      header: response.headers.get("x-postern-dropped"),
      usage: response.json["usageMetadata"],
      sent: harness.upstreamRequests.at(-1)?.body,
    };
  };

  test("is named by the caller's own spelling, in the header and the usage", async () => {
    const body = {
      contents: HELLO,
      generation_config: { top_k: 4, seed: 7 },
      safety_settings: [{}],
    };
    const { header, usage } = await droppedOn("responses", body);
    const named = header?.split(", ").toSorted();
    expect(named).toEqual(["generation_config.seed", "generation_config.top_k", "safety_settings"]);
    expect((usage as Json)["dropped"]).toEqual(header?.split(", "));
  });

  test("a thinking level that is sent is not listed, unless thoughts were asked for", async () => {
    const withThinking = (thinkingConfig: Json) => ({
      contents: HELLO,
      generationConfig: { thinkingConfig },
    });
    const plain = await droppedOn("chat", withThinking({ thinkingLevel: "LOW" }));
    expect([plain.header, plain.sent?.["reasoning_effort"]]).toEqual([null, "low"]);
    const shown = { thinkingLevel: "LOW", includeThoughts: true };
    expect((await droppedOn("chat", withThinking(shown))).header).toBe(
      "generationConfig.thinkingConfig",
    );
  });

  test("a tier without a price is left out at every provider, and named as in this API", async () => {
    for (const wire of WIRES) {
      const { header, sent } = await droppedOn(wire, { contents: HELLO, serviceTier: "priority" });
      expect([wire, header]).toEqual([wire, "serviceTier"]);
      expect(JSON.stringify(sent)).not.toContain("priority");
    }
  });
});

describe("reasoning from another model", () => {
  test("is dropped and listed, and the conversation goes on", async () => {
    const prompt = {
      model: modelOn("messages"),
      text: "[[sim: reasoning=12]] use weather",
      tools: { weather: CITY },
      effort: "low",
    } as const;
    const first = await client.complete(prompt);
    for (const other of ["gemini", "converse", "responses", "chat"] as const) {
      const second = await client.complete({
        ...prompt,
        model: modelOn(other),
        previousReply: first,
        toolResults: ["rain"],
      });
      expect([other, second.text.includes("rain")]).toEqual([other, true]);
      expect(JSON.stringify(harness.upstreamRequests.at(-1)?.body)).not.toContain("pst1.");
    }
  });
});

describe("an image that Gemini generated, with its signature", () => {
  const parts = [
    { text: "Here it is.", thoughtSignature: "dGV4dA==" },
    { inlineData: { mimeType: "image/png", data: PIXEL }, thoughtSignature: "aW1hZ2U=" },
  ];
  const bodyFor = (model: string) => ({
    model,
    contents: [
      { role: "user", parts: [{ text: "paint" }] },
      { role: "model", parts },
      { role: "user", parts: [{ text: "make it bigger" }] },
    ],
  });

  test("is sent back to Gemini as it is", async () => {
    const { status } = await callApi(harness, "gemini", bodyFor(modelOn("gemini")));
    expect(status).toBe(200);
    const contents = harness.upstreamRequests.at(-1)?.body["contents"] as unknown[] | undefined;
    expect(contents?.[1]).toEqual({ role: "model", parts });
  });

  test("is refused at a model on responses, which takes no images of a model", async () => {
    const { status, json } = await callApi(harness, "gemini", bodyFor(modelOn("responses")));
    expect([status, errorParam(json)]).toEqual([400, "contents[1].parts[1]"]);
  });

  test.each(["chat", "messages", "converse"] as const)(
    "is sent to a model on %s without its signature",
    async (wire) => {
      const { status, headers } = await callApi(harness, "gemini", bodyFor(modelOn(wire)));
      expect(status).toBe(200);
      expect(headers.get("x-postern-dropped")).toContain("contents[1].parts[1]");
      const sent = JSON.stringify(harness.upstreamRequests.at(-1)?.body);
      expect(sent).toContain("Here it is.");
      expect(sent).not.toContain("aW1hZ2U=");
      expect(sent).not.toContain("dGV4dA==");
    },
  );
});
