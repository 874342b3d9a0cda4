import { describe, expect, test } from "bun:test";
import { chatBody, createClient, json } from "../simulator-harness.ts";

const MESSAGES = { model: "sim/echo", max_tokens: 50, messages: [{ role: "user", content: "hi" }] };

describe("the simulator", () => {
  const send = createClient();

  test.each([
    [
      "/v1/chat/completions",
      chatBody("hi", { temprature: 0.5 }),
      "Unknown parameter: 'temprature'. Did you mean 'temperature'?",
    ],
    [
      "/v1/chat/completions",
      chatBody("hi", { max_token: 5 }),
      "Unknown parameter: 'max_token'. Did you mean 'max_tokens'?",
    ],
    [
      "/v1/responses",
      { model: "sim/echo", input: "hi", future_field: true },
      "Unknown parameter: 'future_field'.",
    ],
    [
      "/v1/responses/input_tokens",
      { model: "sim/echo", input: "hi", max_tokens: 5 },
      "Unknown parameter: 'max_tokens'.",
    ],
    [
      "/v1/embeddings",
      { model: "sim/embed", input: "hi", dimension: 8 },
      "Unknown parameter: 'dimension'. Did you mean 'dimensions'?",
    ],
    [
      "/v1/messages",
      { ...MESSAGES, max_tokens: undefined, max_token: 5 },
      "max_token: Extra inputs are not permitted",
    ],
    [
      "/v1/messages/count_tokens",
      { ...MESSAGES, temprature: 1 },
      "temprature: Extra inputs are not permitted",
    ],
  ])("rejects a field that %s does not have: %j", async (path, body, message) => {
    const response = await send(path, body);
    expect(response.status).toBe(400);
    expect((await json(response)).error.message).toBe(message);
  });

  test("names the field of OpenAI's error", async () => {
    expect(
      (await json(send("/v1/chat/completions", chatBody("hi", { temprature: 1 })))).error,
    ).toMatchObject({
      type: "invalid_request_error",
      param: "temprature",
      code: "unknown_parameter",
    });
  });
});

test("a simulator of any model accepts the fields of all providers", async () => {
  const send = createClient({ acceptsAnyModel: true });
  const body = { ...chatBody("hi", { random_seed: 7 }), model: "mistral-small" };
  expect((await send("/v1/chat/completions", body)).status).toBe(200);
});
