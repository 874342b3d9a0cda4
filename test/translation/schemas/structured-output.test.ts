// Structured output from models without JSON schema support, over every API including the provider's own.

import { afterAll, describe, expect, test } from "bun:test";
import { grantCredits, lastSimulatorRequest, USD } from "../../inference/support/harness.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import { checkExchanges } from "../support/check-exchanges.ts";
import { type Api, APIS, callApi, type Json } from "../support/harness.ts";
import { createSdkClients } from "../support/sdk-clients.ts";

const gateway = await startGateway({
  providers: ["deepseek", "zai", "moonshot", "openai", "azure", "anthropic", "bedrock"],
});
const account = await registerAccount(gateway);
await grantCredits(gateway, account, 1_000n * USD);
const stop = () => gateway.stop();
const harness = {
  gateway,
  account,
  unfundedAccount: account,
  upstreamRequests: [],
  exchanges: [],
  providerResponse: undefined,
  stop,
};
afterAll(async () => {
  await checkExchanges(harness, "structured output by other means");
  await harness.stop();
});

const CITY = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer", minimum: 1, maximum: 7 } },
  required: ["city", "days"],
  additionalProperties: false,
} as const;
const VALID = { city: expect.any(String), days: expect.any(Number) };
/** DeepSeek rejects a JSON schema, and a required tool call while it reasons. */
const LIMITED_DIRECTIVE = "[[sim: no-schema no-forced-call]]";
const INSTRUCTED_MODELS = ["deepseek/deepseek-v4-pro", "zai/glm-5.3", "moonshot/kimi-k3"] as const;
const TOOL_MODEL = "azure/gpt-4-turbo";

async function lastSentBody(): Promise<Json> {
  return JSON.parse((await lastSimulatorRequest(harness.gateway)).body) as Json;
}

function requestBody(api: Api, model: string, strict: boolean): Json {
  const text = `weather ${LIMITED_DIRECTIVE}`;
  const named = { name: "answer", schema: CITY, ...(strict ? { strict } : {}) };
  switch (api) {
    case "chat":
      return {
        model,
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: text },
        ],
        response_format: { type: "json_schema", json_schema: named },
      };
    case "responses":
      return { model, input: text, text: { format: { type: "json_schema", ...named } } };
    case "messages":
      return {
        model,
        max_tokens: 100,
        messages: [{ role: "user", content: text }],
        output_config: { format: { type: "json_schema", schema: CITY } },
      };
  }
}

describe("a Messages schema, which is always strict", () => {
  const OPEN = { type: "object", properties: { city: { type: "string" } } };
  const bodyWith = (schema: Json): Json => ({
    model: "openai/gpt-5-mini",
    max_tokens: 1_000,
    messages: [{ role: "user", content: "weather" }],
    output_config: { format: { type: "json_schema", schema } },
  });
  const strictSent = async (): Promise<unknown> =>
    /"strict":(true|false)/.exec((await lastSimulatorRequest(harness.gateway)).body)?.[1];

  test("is sent as strict if it is closed", async () => {
    const { status, headers } = await callApi(harness, "messages", bodyWith(CITY));
    expect([status, await strictSent()]).toEqual([200, "true"]);
    expect(headers.get("x-postern-dropped")).toBeNull();
  });

  test("is listed as dropped if it cannot be strict", async () => {
    const { status, headers } = await callApi(harness, "messages", bodyWith(OPEN));
    expect([status, await strictSent()]).not.toContain("true");
    expect(headers.get("x-postern-dropped")).toBe("output_config.format");
  });
});

for (const api of APIS) {
  describe(`${api} to a model with JSON mode and no required tool calls`, () => {
    const client = () => createSdkClients(harness)[api];

    for (const model of INSTRUCTED_MODELS)
      for (const method of ["complete", "stream"] as const)
        test(`${model} replies with the schema (${method})`, async () => {
          const reply = await client()[method]({
            model,
            text: `weather ${LIMITED_DIRECTIVE}`,
            schema: CITY,
          });
          expect(JSON.parse(reply.text)).toEqual(VALID);
          expect([reply.finish, reply.calls]).toEqual(["stop", []]);
          expect(await lastSentBody()).toMatchObject({ response_format: { type: "json_object" } });
        });

    test("adds the schema after the caller's instructions", async () => {
      const { status } = await callApi(harness, api, requestBody(api, INSTRUCTED_MODELS[0], true));
      expect(status).toBe(200);
      const messages = (await lastSentBody())["messages"] as { role: string; content: string }[];
      expect(messages.map(({ role }) => role)).toEqual(
        api === "chat" ? ["system", "system", "user"] : ["system", "user"],
      );
      expect(messages.at(-2)?.content).toContain(JSON.stringify(CITY));
    });

    test("lists `strict` as dropped", async () => {
      const { headers } = await callApi(harness, api, requestBody(api, INSTRUCTED_MODELS[0], true));
      expect(headers.get("x-postern-dropped")).toBe(
        {
          chat: "response_format.json_schema.strict",
          responses: "text.format.strict",
          messages: "output_config.format",
        }[api],
      );
      if (api === "messages") return;
      const loose = await callApi(harness, api, requestBody(api, INSTRUCTED_MODELS[0], false));
      expect(loose.headers.get("x-postern-dropped")).toBeNull();
    });

    for (const method of ["complete", "stream"] as const)
      test(`still calls the caller's own tools (${method})`, async () => {
        const prompt = {
          model: INSTRUCTED_MODELS[0],
          text: `use clock ${LIMITED_DIRECTIVE}`,
          schema: CITY,
          tools: { clock: CITY },
        };
        const called = await client()[method](prompt);
        expect([called.finish, called.calls.map(({ name }) => name)]).toEqual([
          "tool_calls",
          ["clock"],
        ]);
        const answered = await client()[method]({
          ...prompt,
          previousReply: called,
          toolResults: ["noon"],
        });
        expect([answered.finish, JSON.parse(answered.text)]).toEqual(["stop", VALID]);
      });
  });

  describe(`${api} to a model without JSON mode`, () => {
    const client = () => createSdkClients(harness)[api];

    for (const method of ["complete", "stream"] as const)
      test(`returns a tool call's input as text (${method})`, async () => {
        const reply = await client()[method]({
          model: TOOL_MODEL,
          text: "weather [[sim: no-schema]]",
          schema: CITY,
        });
        expect(JSON.parse(reply.text)).toEqual(VALID);
        expect([reply.finish, reply.calls]).toEqual(["stop", []]);
        expect(await lastSentBody()).toMatchObject({
          tools: [{ function: { parameters: CITY } }],
          tool_choice: { type: "function" },
        });
      });

    test("requires a call of any tool if the caller has tools", async () => {
      const reply = await client().complete({
        model: TOOL_MODEL,
        text: "clock [[sim: no-schema]]",
        schema: CITY,
        tools: { clock: CITY },
      });
      expect([reply.finish, reply.calls.map(({ name }) => name)]).toEqual([
        "tool_calls",
        ["clock"],
      ]);
      expect(await lastSentBody()).toMatchObject({ tool_choice: "required" });
    });

    test("rejects a schema that is not an object", async () => {
      const body = requestBody(api, TOOL_MODEL, false);
      const list = JSON.parse(
        JSON.stringify(body).replaceAll(JSON.stringify(CITY), '{"type":"array","items":{}}'),
      ) as Json;
      const { status, json } = await callApi(harness, api, list);
      expect(status).toBe(400);
      expect(json["error"]).toMatchObject({ param: expect.stringMatching(/format/) });
    });
  });
}

// Claude supports schemas, but no recursive ones, and its newest models cannot be forced to call a tool.
describe.each([
  "anthropic/claude-opus-5-5",
  "anthropic/claude-sonnet-5-5",
  "bedrock/global.anthropic.claude-opus-5-5",
])("a schema that %s does not take", (model) => {
  const node = {
    type: "object",
    properties: { city: { type: "string" }, next: { $ref: "#/$defs/node" } },
    required: ["city"],
    additionalProperties: false,
  };
  const recursive = { ...node, $defs: { node } };

  for (const api of ["chat", "responses"] as const)
    test(`becomes an instruction on ${api}`, async () => {
      const client = createSdkClients(harness)[api];
      for (const method of ["complete", "stream"] as const) {
        const reply = await client[method]({ model, text: "weather", schema: recursive });
        expect(JSON.parse(reply.text)).toMatchObject({ city: expect.any(String) });
        expect([reply.finish, reply.calls]).toEqual(["stop", []]);
      }
      const sent = await lastSentBody();
      expect(JSON.stringify(sent["system"])).toContain("without a code block");
      expect([sent["tools"], sent["output_config"], sent["toolConfig"]]).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
      const body = requestBody(api, model, true);
      const strict = JSON.parse(
        JSON.stringify(body).replaceAll(JSON.stringify(CITY), JSON.stringify(recursive)),
      ) as Json;
      const { status, headers } = await callApi(harness, api, strict);
      expect([status, headers.get("x-postern-dropped")]).toEqual([
        200,
        api === "chat" ? "response_format.json_schema.strict" : "text.format.strict",
      ]);
    });
});

describe("a model with JSON schema support", () => {
  test("gets the request passed through on its own API", async () => {
    await createSdkClients(harness).chat.complete({
      model: "openai/gpt-4o",
      text: "weather",
      schema: CITY,
    });
    expect(await lastSentBody()).toMatchObject({ response_format: { type: "json_schema" } });
  });
});
