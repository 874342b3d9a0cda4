// Counts of input tokens without the provider: within 10% of what providers billed, for half of the recorded calls of each family.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { isObject, parseObject } from "../../../src/base/json.ts";
import { countRequestTokens } from "../../../src/inference/metering/input-count.ts";
import { call, expectError, valueAt } from "../../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import {
  type Recording,
  recordings,
  skipWithoutRecordings,
} from "../../support/recordings/recordings.ts";
import { expectStatus } from "../../support/source/tested-statuses.ts";
import type { Json } from "../support/harness.ts";

/** What counts by rules of its own: media, tools and schemas, whose form at the provider is not published, and stored input. */
const OTHER_CONTENT =
  /"(?:tools|functions|response_format|output_config|responseSchema|responseJsonSchema|image|image_url|input_image|document|file|inlineData|inline_data|fileData|input_audio|input_file|container|mcp_servers|web_search\w*|google_search|googleSearch|codeExecution|previous_response_id|server_tool_use|url_context)/;

/** Fewer tokens say nothing about a ratio. */
const TOKENS_MIN = 60;

function billedInput({ summary: { usage } }: Recording): number {
  const count = (name: string): number => Number(usage[name] ?? 0);
  if (usage["promptTokenCount"] !== undefined) return count("promptTokenCount");
  if (usage["prompt_tokens"] !== undefined) return count("prompt_tokens");
  const cached = count("cache_read_input_tokens") + count("cache_creation_input_tokens");
  return count("input_tokens") + cached;
}

/** A Gemini body with the fields of the other APIs. */
function withKnownFields(body: Json): Json {
  const { contents, systemInstruction, system_instruction = systemInstruction, ...rest } = body;
  return contents === undefined
    ? body
    : { ...rest, messages: contents, system: system_instruction };
}

async function ratiosOf(family: RegExp): Promise<readonly number[]> {
  const ratios: number[] = [];
  for (const recording of recordings()) {
    const { status, requestBody = "", wire, model } = recording;
    const body = parseObject(requestBody);
    if (status !== 200 || wire === undefined || body === undefined || !family.test(model)) continue;
    const billed = billedInput(recording);
    if (billed < TOKENS_MIN || OTHER_CONTENT.test(requestBody)) continue;
    const { tokens } = await countRequestTokens(withKnownFields(body), model);
    ratios.push(tokens / billed);
  }
  return ratios.toSorted((one, other) => one - other);
}

describe.skipIf(skipWithoutRecordings("token counts"))("counts of recorded calls", () => {
  test.each([
    ["OpenAI", /^(gpt-|o\d)/],
    ["Google", /gemini/],
    ["Claude", /claude/],
  ])("of text at %s are within 10%% of the bill at the median", async (_, family) => {
    const ratios = await ratiosOf(family);
    expect(ratios.length).toBeGreaterThan(10);
    const errors = ratios.map((ratio) => Math.abs(ratio - 1)).toSorted((one, other) => one - other);
    expect(errors[Math.floor(errors.length / 2)]).toBeLessThan(0.1);
  });
});

describe("endpoints that count", () => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({
      providers: ["sim", "openai", "anthropic", "google", "groq", "mistral"],
    });
    account = await registerAccount(gateway);
  });
  afterAll(() => gateway.stop());

  /** 901 words. */
  const text = Array.from(
    { length: 53 },
    () => "the history of navigation is the history of an idea about clocks and stars on the sea",
  )
    .join(" ")
    .concat(" that is all");

  test.each([
    ["openai/gpt-5-mini", "provider"],
    ["google/gemini-2.5-flash", "provider"],
    ["anthropic/claude-haiku-4-5", "provider"],
    ["groq/openai/gpt-oss-120b", "tokenizer"],
    ["mistral/mistral-large-latest", "estimate"],
  ])("say how they counted for %s: %s", async (model, method) => {
    const messages = [{ role: "user", content: text }];
    const body = { model, messages };
    const counted = await call(gateway, "POST /v1/messages/count_tokens", {
      key: account.key,
      body,
    });
    expect([counted.status, counted.headers.get("x-postern-count")]).toEqual([200, method]);
    expect(Number(valueAt(counted.body, "input_tokens"))).toBeLessThan(1_300);
  });

  test("count the input of a response for every model, free of charge", async () => {
    const { key } = account;
    const body = { model: "groq/openai/gpt-oss-120b", input: text, instructions: "Be short." };
    const counted = await call(gateway, "POST /v1/responses/input_tokens", { key, body });
    expectStatus("countInputTokens", 200, counted);
    expect(counted.body).toMatchObject({ object: "response.input_tokens" });
    const tokens = Number(valueAt(counted.body, "input_tokens"));
    expect(tokens).toBeGreaterThan(880);
    expect(tokens).toBeLessThan(1_000);
    const other = { ...body, model: "mistral/mistral-large-latest" };
    const estimated = await call(gateway, "POST /v1/responses/input_tokens", { key, body: other });
    expect(estimated.headers.get("x-postern-count")).toBe("estimate");
    const usage = await call(gateway, "GET /v1/usage", { key });
    expect(valueAt(usage.body, "data")).toEqual([]);
  });

  test("refuse a response to continue, a missing input and an unknown model", async () => {
    const count = (body: Json) =>
      call(gateway, "POST /v1/responses/input_tokens", { key: account.key, body });
    const continued = await count({
      model: "sim/echo",
      input: "a",
      previous_response_id: "resp_1",
    });
    expectStatus("countInputTokens", 400, continued);
    expectError(continued, {
      status: 400,
      code: "invalid_request",
      param: "previous_response_id",
    });
    const unknown = await count({ model: "sim/none", input: "a" });
    expectStatus("countInputTokens", 404, unknown);
    expect(isObject(unknown.body)).toBe(true);
  });
});
