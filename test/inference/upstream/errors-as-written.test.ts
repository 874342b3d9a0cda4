// On the API that the caller uses, a provider's error reaches the caller as the provider wrote it: clients recover by its text.

import { afterEach, describe, expect, test } from "bun:test";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { bodyOf, errorOf, grantCredits, type Json, postCall, USD } from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

const MODELS = [
  ...identicalModels(1),
  { ...identicalModels(1)[0], id: "sim/chat-only", wires: ["chat"] },
];

let provider: RawProvider;
let gateway: Gateway;
let account: TestAccount;

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

async function start(reply: RawReply, providers: readonly string[] = []): Promise<void> {
  provider = await startRawProvider(() => reply);
  gateway = await startGateway({
    providers,
    env: { SIM_BASE_URL: provider.url, SIM_API_KEY: "sk-sim-4711", ...withModels(MODELS) },
  });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, USD);
}

type Api = "chat" | "responses" | "messages";
const call = (api: Api, more: Json = {}) =>
  postCall(gateway, account, api, bodyOf(api, "hello", { model: "sim/twin-0", ...more }));

const MESSAGES_ERRORS: readonly (readonly [status: number, type: string, message: string])[] = [
  [400, "invalid_request_error", "messages.1.output_config: Extra inputs are not permitted"],
  [
    400,
    "invalid_request_error",
    "Unexpected value(s) `context-9m-2026` for the `anthropic-beta` header.",
  ],
  [400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"],
  [413, "request_too_large", "Request exceeds the maximum size"],
  [409, "conflict_error", "The resource changed."],
  [424, "failed_dependency_error", "An MCP server failed."],
  [529, "overloaded_error", "Overloaded"],
];

describe("an error of the provider on the caller's own API", () => {
  test.each(MESSAGES_ERRORS)(
    "keeps status, type and message on Messages: %d %s",
    async (status, type, message) => {
      await start({ status, body: JSON.stringify({ type: "error", error: { type, message } }) });
      const response = await call("messages");
      const body = (await response.json()) as Json;
      expect([response.status, body["type"]]).toEqual([status, "error"]);
      expect(errorOf(body)).toMatchObject({ type, message, provider: "sim" });
    },
  );

  test.each([
    ["chat", 400, "invalid_request_error"],
    ["responses", 400, "invalid_request_error"],
    ["chat", 422, "validation_error"],
  ] as const)("keeps status, type and message on %s: %d %s", async (api, status, type) => {
    const message = "Unsupported value: 'temperature' does not support 0.2 with this model.";
    await start({
      status,
      body: JSON.stringify({
        error: { message, type, param: "temperature", code: "unsupported_value" },
      }),
    });
    const response = await call(api);
    expect(response.status).toBe(status);
    expect(errorOf(await response.json())).toMatchObject({
      type,
      message,
      param: "temperature",
      provider: "sim",
      provider_code: "unsupported_value",
    });
  });

  test("keeps type and message in the middle of a stream", async () => {
    const events = [
      {
        type: "message_start",
        message: {
          id: "m",
          type: "message",
          role: "assistant",
          content: [],
          model: "twin-0",
          usage: { input_tokens: 3, output_tokens: 1 },
        },
      },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "hi" } },
      { type: "error", error: { type: "overloaded_error", message: "Overloaded" } },
    ];
    const body = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    await start({ headers: { "content-type": "text/event-stream" }, body: body.join("") });
    const text = await (await call("messages", { stream: true })).text();
    const data = text.slice(text.indexOf("event: error")).match(/data: (.*)/)?.[1] ?? "{}";
    expect(errorOf(JSON.parse(data))).toMatchObject({
      type: "overloaded_error",
      message: "Overloaded",
    });
  });

  test("does not contain the gateway's key", async () => {
    const message = "Incorrect API key provided: sk-sim-4711.";
    await start({
      status: 400,
      body: JSON.stringify({ error: { message, type: "invalid_request_error" } }),
    });
    expect(errorOf(await (await call("chat")).json())["message"]).toBe(
      "Incorrect API key provided: [key].",
    );
  });

  test("names the provider after a translation, whose fields are not the caller's", async () => {
    await start({
      status: 400,
      body: '{"error":{"message":"bad value","type":"invalid_request_error"}}',
    });
    const response = await call("messages", { model: "sim/chat-only" });
    expect(errorOf(await response.json())["message"]).toMatch(/^[A-Z].*: bad value$/);
  });
});

describe("a refusal of the gateway on Messages", () => {
  test("begins with the path of the field, as Anthropic's errors do", async () => {
    await start({ body: "{}" }, ["anthropic"]);
    const response = await call("messages", {
      model: "anthropic/claude-haiku-4-5",
      messages: [
        { role: "user", content: "hi" },
        { role: "user", content: "hi", memory: "mem_0A9f8e7d6c5b" },
      ],
    });
    const { message, param } = errorOf(await response.json());
    expect(response.status).toBe(400);
    expect(message).toStartWith("messages.1.memory: Extra inputs are not permitted\n");
    expect(param).toBe("messages[1].memory");
  });

  test("of a known field with a wrong value begins with its path", async () => {
    await start({ body: "{}" }, ["anthropic"]);
    const response = await call("messages", {
      model: "anthropic/claude-haiku-4-5",
      max_tokens: -1,
    });
    expect(errorOf(await response.json())["message"]).toMatch(/^max_tokens: `max_tokens` must be/);
  });
});
