// Hints that a model does not take are dropped and listed; what changes the reply is refused; a strict caller gets a 400 for
// every drop.

import { afterAll, describe, expect, test } from "bun:test";
import { OUTBOUND_WIRES } from "@postern/wires";
import {
  type Api,
  APIS,
  callApi,
  type Json,
  minimalBody,
  modelOn,
  startHarness,
  type Wire,
} from "./support/harness.ts";

const harness = await startHarness({ providers: ["openai", "anthropic", "bedrock"] });
afterAll(() => harness.stop());

const HINTS: readonly (readonly [api: Api, wire: Wire, body: Json, dropped: string])[] = [
  ["chat", "messages", { seed: 7 }, "seed"],
  ["chat", "messages", { frequency_penalty: 1 }, "frequency_penalty"],
  ["chat", "messages", { logit_bias: { "1": 1 } }, "logit_bias"],
  ["chat", "messages", { verbosity: "low" }, "verbosity"],
  ["chat", "messages", { metadata: { run: "1" } }, "metadata"],
  ["chat", "messages", { temperature: 1.5 }, "temperature"],
  ["chat", "messages", { prediction: { type: "content", content: "x" } }, "prediction"],
  ["chat", "messages", { safe_prompt: false }, "safe_prompt"],
  ["chat", "converse", { logprobs: true }, "logprobs"],
  ["chat", "messages", { logprobs: true, top_logprobs: 2 }, "logprobs, top_logprobs"],
  ["responses", "messages", { include: ["message.output_text.logprobs"] }, "include"],
  ["responses", "converse", { top_logprobs: 2 }, "top_logprobs"],
  ["responses", "messages", { truncation: "auto" }, "truncation"],
  ["responses", "chat", { metadata: { run: "1" } }, "metadata"],
  ["messages", "responses", { top_k: 5 }, "top_k"],
  ["messages", "gemini", { context_management: { edits: [] } }, "context_management"],
];

describe("a hint that the model does not take", () => {
  for (const [api, wire, body, dropped] of HINTS)
    test(`${dropped} over ${api} is dropped on ${wire} and listed in the header and the usage`, async () => {
      const request = { ...minimalBody(api, wire, "hello"), ...body };
      const reply = await callApi(harness, api, request);
      expect([reply.status, reply.headers.get("x-postern-dropped")]).toEqual([200, dropped]);
      expect((reply.json["usage"] as Json)["dropped"]).toEqual(dropped.split(", "));
    });

  test("is listed in the usage of a stream, too", async () => {
    const body = { seed: 7, stream: true, stream_options: { include_usage: true } };
    const reply = await callApi(harness, "chat", {
      ...minimalBody("chat", "messages", "hello"),
      ...body,
    });
    expect(reply.headers.get("x-postern-dropped")).toBe("seed");
    expect(reply.text).toContain(`"dropped":["seed"]`);
  });

  test("sends the greatest temperature and the smallest output limit that the provider takes", async () => {
    await callApi(harness, "chat", { ...minimalBody("chat", "messages", "a"), temperature: 1.5 });
    expect(harness.upstreamRequests.at(-1)?.body["temperature"]).toBe(1);
    const limited = OUTBOUND_WIRES.responses.writeRequest(
      { model: "m", turns: [], maxOutputTokens: 1 },
      { provider: "openai", model: "gpt-5.5" },
    );
    expect(limited.body["max_output_tokens"]).toBe(16);
    expect(limited.losses).toMatchObject([{ path: "maxOutputTokens", hint: true }]);
  });

  test("leaves message names out", async () => {
    const messages = [{ role: "user", name: "ada", content: "hello" }];
    const reply = await callApi(harness, "chat", { model: modelOn("converse"), messages });
    expect(reply.headers.get("x-postern-dropped")).toBe("messages[0].name");
  });
});

describe("a hint that the model does not take on its own API", () => {
  const body = {
    model: "openai/gpt-5.5",
    messages: [{ role: "user", content: "hello" }],
    temperature: 0.5,
    reasoning_effort: "low",
  };

  test("is listed in the header and the usage", async () => {
    const reply = await callApi(harness, "chat", body);
    expect([reply.status, reply.headers.get("x-postern-dropped")]).toEqual([200, "temperature"]);
    expect(reply.json["usage"]).toMatchObject({
      cost: expect.any(Number),
      dropped: ["temperature"],
    });
    const accepted = await callApi(harness, "chat", { ...body, temperature: undefined });
    expect(accepted.json["usage"]).not.toHaveProperty("dropped");
  });

  test("is listed in the usage of a stream", async () => {
    const streaming = { ...body, stream: true, stream_options: { include_usage: true } };
    const reply = await callApi(harness, "chat", streaming);
    expect(reply.text).toMatch(/"usage":\{[^\n]*"dropped":\["temperature"\]/);
    const input = { model: body.model, input: "hello", temperature: 0.5, stream: true };
    const responses = await callApi(harness, "responses", {
      ...input,
      reasoning: { effort: "low" },
    });
    expect(responses.text).toMatch(/"usage":\{[^\n]*"dropped":\["temperature"\]/);
  });

  test("may be the strictness of a tool with an open schema", async () => {
    const parameters = { type: "object", properties: { city: { type: "string" } } };
    const closed = { ...parameters, required: ["city"], additionalProperties: false };
    const tools = [parameters, closed].map((schema, index) => ({
      type: "function",
      function: { name: `look_${index}`, parameters: schema, strict: true },
    }));
    const { temperature: _temperature, ...rest } = body;
    const reply = await callApi(harness, "chat", { ...rest, tools });
    expect([reply.status, reply.headers.get("x-postern-dropped")]).toEqual([
      200,
      "tools[0].function.strict",
    ]);
    const requests = await fetch(`${harness.gateway.simulatorUrl}/sim/requests?limit=1`);
    expect((await requests.text()).match(/\\"strict\\":true/g)).toHaveLength(1);
  });
});

describe("a strict caller", () => {
  const send = (headers: Readonly<Record<string, string>>, body: Json): Promise<Response> =>
    fetch(`${harness.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...harness.account.headers, ...headers },
      body: JSON.stringify({ ...minimalBody("chat", "messages", "hello"), ...body }),
    });
  const paramOf = async (response: Response): Promise<unknown> =>
    ((await response.json()) as { readonly error?: Json }).error?.["param"];

  test("gets a 400 for what would be dropped", async () => {
    const before = harness.upstreamRequests.length;
    const response = await send({ "x-postern-strict": "true" }, { seed: 7 });
    expect([response.status, await paramOf(response)]).toEqual([400, "seed"]);
    const required = await send({}, { seed: 7, provider: { require_parameters: true } });
    expect([required.status, await paramOf(required)]).toEqual([400, "seed"]);
    expect(harness.upstreamRequests.length).toBe(before);
  });

  test("is answered if nothing has to be dropped", async () => {
    const response = await send({ "x-postern-strict": "true" }, { temperature: 0.5 });
    expect(response.status).toBe(200);
    expect((await send({ "x-postern-strict": "false" }, { seed: 7 })).status).toBe(200);
  });

  test("gets a 400 for log probabilities where a model has none", async () => {
    const response = await send({ "x-postern-strict": "true" }, { logprobs: true });
    expect([response.status, await paramOf(response)]).toEqual([400, "logprobs"]);
    const required = { top_logprobs: 2, provider: { require_parameters: true } };
    expect(await paramOf(await send({}, required))).toBe("top_logprobs");
  });

  test("gets a 400 for a value that is not true or false", async () => {
    const response = await send({ "x-postern-strict": "yes" }, {});
    expect([response.status, await paramOf(response)]).toEqual([400, "x-postern-strict"]);
    const field = await send({}, { provider: { require_parameters: "yes" } });
    expect([field.status, await paramOf(field)]).toEqual([400, "provider.require_parameters"]);
  });

  test("moves on to a fallback that takes the field", async () => {
    const response = await send(
      { "x-postern-strict": "true" },
      { seed: 7, models: [modelOn("gemini")] },
    );
    expect([response.status, response.headers.get("x-postern-model")]).toEqual([
      200,
      modelOn("gemini"),
    ]);
  });
});

test("the header of a client that cannot add fields drops what `postern.lossy` does", async () => {
  const send = (lossy: string): Promise<Response> =>
    fetch(`${harness.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...harness.account.headers, "x-postern-lossy": lossy },
      body: JSON.stringify({ ...minimalBody("chat", "messages", "hello"), n: 2 }),
    });
  const dropped = await send("true");
  expect([dropped.status, dropped.headers.get("x-postern-dropped")]).toEqual([200, "n"]);
  expect((await send("false")).status).toBe(400);
  const invalid = (await (await send("yes")).json()) as { readonly error: Json };
  expect(invalid.error["param"]).toBe("x-postern-lossy");
});

test("what changes the reply is still refused", async () => {
  for (const [api, wire, body, path] of [
    ["chat", "messages", { n: 2 }, "n"],
    ["messages", "gemini", { inference_geo: "us" }, "inference_geo"],
  ] as const) {
    const reply = await callApi(harness, api, { ...minimalBody(api, wire, "hello"), ...body });
    expect([reply.status, (reply.json["error"] as Json)["param"]]).toEqual([400, path]);
  }
});

describe("on the model's own API", () => {
  const dropped = async (api: Api, body: Json): Promise<string | null> => {
    const reply = await callApi(harness, api, {
      ...minimalBody(api, "chat", "hello"),
      ...body,
    });
    expect(reply.status).toBe(200);
    return reply.headers.get("x-postern-dropped");
  };

  test("sampling that a model rejects is dropped", async () => {
    const opus = { model: "anthropic/claude-opus-5-5" };
    expect(await dropped("messages", { ...opus, temperature: 0.5, top_k: 5 })).toBe(
      "temperature, top_k",
    );
    const gpt = { model: "openai/gpt-5.5" };
    expect(await dropped("chat", { ...gpt, temperature: 0.5 })).toBe("temperature");
    expect(await dropped("chat", { ...gpt, temperature: 0.5, reasoning_effort: "none" })).toBe(
      null,
    );
    expect(await dropped("responses", { ...gpt, input: "a", top_p: 0.5 })).toBe("top_p");
    expect(await dropped("chat", { model: "openai/gpt-5.1", temperature: 0.5 })).toBe(null);
  });

  test("thinking is sent as written on Claude's own API, and adapted after a rejection", async () => {
    const opus = { model: "anthropic/claude-opus-5-5" };
    const sonnet = { model: "anthropic/claude-sonnet-5-5" };
    const off = { thinking: { type: "disabled" } };
    const budget = { max_tokens: 4_000, thinking: { type: "enabled", budget_tokens: 2_000 } };
    const older = { model: "anthropic/claude-sonnet-4-5" };
    expect(await dropped("messages", { ...older, ...budget })).toBe(null);
    expect(await dropped("messages", { ...older, ...off })).toBe(null);
    // The provider's own 400 comes first; then the adapted request is sent.
    expect(await dropped("messages", { ...opus, ...off })).toBe("thinking");
    const recorded = await fetch(`${harness.gateway.simulatorUrl}/sim/requests?limit=2`);
    const { data } = (await recorded.json()) as { readonly data: readonly { body: string }[] };
    const sent = data.map(({ body }) => (JSON.parse(body) as Json)["thinking"]);
    expect(sent).toEqual([undefined, off.thinking]);
    expect(await dropped("messages", { ...sonnet, ...off })).toBe("thinking");
    expect(await dropped("messages", { ...opus, ...budget })).toBe("thinking.budget_tokens");
    expect(await dropped("chat", { ...opus, reasoning_effort: "none" })).toBe("reasoning_effort");
    expect(await dropped("chat", { ...sonnet, reasoning_effort: "none" })).toBe(null);
    const bedrock = { model: "bedrock/global.anthropic.claude-opus-5-5" };
    expect(await dropped("chat", { ...bedrock, reasoning_effort: "none" })).toBe(
      "reasoning_effort",
    );
  });

  test("a forced tool call becomes an instruction for Claude 5.5, which rejects it", async () => {
    const opus = { model: "anthropic/claude-opus-5-5" };
    const parameters = { type: "object", properties: {} };
    const own = {
      ...opus,
      system: "Be brief.",
      tools: [{ name: "look", input_schema: parameters }],
      tool_choice: { type: "tool", name: "look", disable_parallel_tool_use: true },
    };
    expect(await dropped("messages", own)).toBe("tool_choice");
    expect(await dropped("messages", { ...own, tool_choice: { type: "auto" } })).toBe(null);
    const tools = [{ type: "function", function: { name: "look", parameters } }];
    for (const model of [opus.model, "bedrock/global.anthropic.claude-opus-5-5"])
      expect(await dropped("chat", { model, tools, tool_choice: "required" })).toBe("tool_choice");
    const strict = { provider: { require_parameters: true } };
    const body = { ...minimalBody("messages", "chat", "hello"), ...own, ...strict };
    expect((await callApi(harness, "messages", body)).status).toBe(400);
  });

  test("Claude 4.1 to 4.6 get either the temperature or top_p", async () => {
    const both = { temperature: 0.5, top_p: 0.9 };
    expect(await dropped("messages", { model: "anthropic/claude-sonnet-4-5", ...both })).toBe(
      "top_p",
    );
    const bedrock = "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0";
    expect(await dropped("messages", { model: bedrock, ...both })).toBe("top_p");
    expect(await dropped("messages", { model: "anthropic/claude-sonnet-4-5", top_p: 0.9 })).toBe(
      null,
    );
  });
});

test("every API accepts a call without drops", async () => {
  for (const api of APIS) {
    const reply = await callApi(harness, api, minimalBody(api, "gemini", "hello"));
    expect([reply.status, reply.headers.get("x-postern-dropped")]).toEqual([200, null]);
  }
});
