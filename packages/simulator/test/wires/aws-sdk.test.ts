// The official AWS client against the simulated Bedrock.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type BedrockRuntimeClient,
  ConverseCommand,
  type ConverseCommandInput,
  ConverseStreamCommand,
  type ConverseStreamOutput,
  CountTokensCommand,
} from "@aws-sdk/client-bedrock-runtime";
import { createEventFrameParser } from "@postern/wires";
import { bedrockClient } from "../../../../test/translation/support/bedrock-client.ts";
import {
  validateConverseEvent,
  validateConverseReply,
} from "../../../../test/translation/support/converse-schema.ts";
import { createClient, json, serveSimulator } from "../simulator-harness.ts";

let simulator: ReturnType<typeof serveSimulator>;
let client: BedrockRuntimeClient;

beforeAll(() => {
  simulator = serveSimulator({ acceptsAnyModel: true });
  client = bedrockClient(simulator.url);
});
afterAll(async () => {
  client.destroy();
  await simulator.stop();
});

const CITY = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const PIXEL = Uint8Array.from([137, 80, 78, 71, 13, 10, 26, 10]);
type ExtraInput = Omit<Partial<ConverseCommandInput>, "modelId" | "messages">;

const converseInput = (text: string, more: ExtraInput = {}): ConverseCommandInput => ({
  modelId: "us.anthropic.claude-sonnet-4-6-v1:0",
  messages: [{ role: "user", content: [{ text }] }],
  ...more,
});
const tools = (...names: readonly string[]): ExtraInput => ({
  toolConfig: {
    tools: names.map((name) => ({ toolSpec: { name, inputSchema: { json: CITY } } })),
  },
});
const thinking: ExtraInput = {
  additionalModelRequestFields: { thinking: { type: "enabled", budget_tokens: 1_024 } },
};

interface StreamResult {
  readonly events: readonly ConverseStreamOutput[];
  readonly text: string;
  readonly reasoning: string;
  readonly input: string;
  readonly error: string | undefined;
}

async function readStream(input: ConverseCommandInput): Promise<StreamResult> {
  const events: ConverseStreamOutput[] = [];
  let error: string | undefined;
  try {
    const { stream } = await client.send(new ConverseStreamCommand(input));
    for await (const event of stream ?? []) events.push(event);
  } catch (caught) {
    error = caught instanceof Error ? caught.name : String(caught);
  }
  const deltas = events.flatMap((event) => event.contentBlockDelta?.delta ?? []);
  return {
    events,
    error,
    text: deltas.map((delta) => delta.text ?? "").join(""),
    reasoning: deltas.map((delta) => delta.reasoningContent?.text ?? "").join(""),
    input: deltas.map((delta) => delta.toolUse?.input ?? "").join(""),
  };
}

describe("Converse with the AWS SDK", () => {
  test("returns text, stop reason and usage", async () => {
    const { output, stopReason, usage, metrics } = await client.send(
      new ConverseCommand(converseInput("hello")),
    );
    expect(output?.message).toEqual({
      role: "assistant",
      content: [{ text: "You said: hello" }],
    });
    expect([stopReason, usage?.outputTokens, metrics?.latencyMs]).toEqual(["end_turn", 4, 100]);
  });

  test("returns tool calls with object input", async () => {
    const reply = await client.send(
      new ConverseCommand(converseInput("use weather and clock, both", tools("weather", "clock"))),
    );
    const uses = reply.output?.message?.content?.flatMap((block) => block.toolUse ?? []) ?? [];
    expect(uses.map(({ name, input }) => [name, typeof Object(input).city])).toEqual([
      ["weather", "string"],
      ["clock", "string"],
    ]);
    expect(reply.stopReason).toBe("tool_use");
  });

  test("returns signed reasoning", async () => {
    const reply = await client.send(new ConverseCommand(converseInput("why", thinking)));
    const [first] = reply.output?.message?.content ?? [];
    expect(first?.reasoningContent?.reasoningText).toEqual({
      text: expect.stringContaining("think"),
      signature: expect.any(String),
    });
  });

  test("accepts bytes and a JSON schema", async () => {
    const reply = await client.send(
      new ConverseCommand({
        ...converseInput("look"),
        messages: [
          {
            role: "user",
            content: [
              { image: { format: "png", source: { bytes: PIXEL } } },
              { document: { format: "pdf", name: "paper", source: { bytes: PIXEL } } },
              { text: "look" },
              { cachePoint: { type: "default" } },
            ],
          },
        ],
        outputConfig: {
          textFormat: {
            type: "json_schema",
            structure: { jsonSchema: { schema: JSON.stringify(CITY), name: "city" } },
          },
        },
      }),
    );
    expect(JSON.parse(reply.output?.message?.content?.[0]?.text ?? "")).toEqual({
      city: expect.any(String),
    });
    expect(reply.usage?.cacheWriteInputTokens).toBeGreaterThan(0);
  });

  test("counts tokens", async () => {
    const { messages } = converseInput("hello there");
    const counted = await client.send(
      new CountTokensCommand({
        modelId: "amazon.nova-lite-v1:0",
        input: { converse: { messages } },
      }),
    );
    expect(counted.inputTokens).toBeGreaterThan(0);
  });
});

describe("ConverseStream with the AWS SDK", () => {
  test("streams reasoning, text and usage", async () => {
    const result = await readStream(converseInput("why [[sim: chunks=5]]", thinking));
    expect([result.error, result.reasoning.length > 0, result.text.length > 0]).toEqual([
      undefined,
      true,
      true,
    ]);
    expect(result.events[0]?.messageStart?.role).toBe("assistant");
    expect(result.events.at(-2)?.messageStop?.stopReason).toBe("end_turn");
    expect(result.events.at(-1)?.metadata?.usage?.outputTokens).toBeGreaterThan(0);
    expect(result.events.some((event) => event.$unknown !== undefined)).toBe(false);
  });

  test("streams a tool call's input", async () => {
    const result = await readStream(converseInput("use weather", tools("weather")));
    expect(JSON.parse(result.input)).toEqual({ city: expect.any(String) });
    const starts = result.events.flatMap((event) => event.contentBlockStart?.start?.toolUse ?? []);
    expect(starts.map(({ name }) => name)).toEqual(["weather"]);
  });

  test("streams the same text in slices of any size", async () => {
    const plain = await readStream(converseInput("one two three"));
    const sliced = await readStream(converseInput("one two three [[sim: slice=3]]"));
    expect([sliced.error, sliced.text]).toEqual([undefined, plain.text]);
  });

  test("throws the exception of an error frame", async () => {
    const result = await readStream(converseInput("[[sim: chunks=6 fail=2]] one two three"));
    expect([result.error, result.text]).toEqual(["ModelStreamErrorException", "the sim "]);
  });

  test("rejects a frame with a wrong checksum", async () => {
    const result = await readStream(converseInput("[[sim: chunks=6 garble=2]] one two three"));
    expect(result.error).toBeDefined();
  });
});

describe("errors with the AWS SDK", () => {
  test.each([
    ["status=400", "ValidationException"],
    ["status=403", "AccessDeniedException"],
    ["status=404", "ResourceNotFoundException"],
    ["status=408", "ModelTimeoutException"],
    ["status=429", "ThrottlingException"],
    ["status=500", "InternalServerException"],
    ["status=503", "ServiceUnavailableException"],
  ])("%s throws %s, streamed or not", async (directive, name) => {
    const input = converseInput(`[[sim: ${directive}]] hello`);
    const thrown = await client.send(new ConverseCommand(input)).catch((error: unknown) => error);
    expect(thrown).toMatchObject({ name, message: "This error was requested by a directive." });
    expect((await readStream(input)).error).toBe(name);
  });
});

describe("AWS's service schema", () => {
  const send = createClient({ acceptsAnyModel: true });
  const directives = [
    "",
    "reasoning=5",
    "refusal",
    "filter",
    "empty",
    "tokens=9 chunks=3",
    "tier=flex",
  ];

  test.each(directives)("the reply and all stream events are valid (%s)", async (directive) => {
    const body = {
      messages: [{ role: "user", content: [{ text: `[[sim: ${directive}]] use weather` }] }],
      ...tools("weather"),
    };
    const reply = await json(send("/model/m/converse", body));
    expect(validateConverseReply(reply)).toEqual([]);
    const response = await send("/model/m/converse-stream", body);
    const frames = createEventFrameParser().push(new Uint8Array(await response.arrayBuffer()));
    expect(frames.length).toBeGreaterThan(2);
    for (const { headers, payload } of frames) {
      // The padding member of real frames is not in the schema.
      const { p: _padding, ...event } = JSON.parse(new TextDecoder().decode(payload));
      expect(validateConverseEvent({ [headers.get(":event-type") ?? ""]: event })).toEqual([]);
    }
  });
});
