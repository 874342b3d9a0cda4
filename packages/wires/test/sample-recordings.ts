// Hand-written replies in the form of recordings, one whole and one streamed on each wire, so that tests of recorded
// traffic always have something to check. Each has reasoning, text, a tool call and 150 tokens, 20 of them cached.

import type {
  BodyFormat,
  RecordedWire,
  Recording,
} from "../../../test/support/recordings/recordings.ts";
import { encodeFrame } from "./converse/encode-converse-frames.ts";

type Json = Readonly<Record<string, unknown>>;

const ARGUMENTS = '{"city":"Oslo"}';
const INPUT = { city: "Oslo" };
const SIGNATURE = "c2lnbmF0dXJl";
const encoder = new TextEncoder();

const sse = (events: readonly Json[], isNamed = false): Uint8Array =>
  encoder.encode(
    events
      .map((event) => {
        const name = isNamed ? `event: ${String(event["type"])}\n` : "";
        return `${name}data: ${JSON.stringify(event)}\n\n`;
      })
      .join(""),
  );

// ---- chat

const CHAT_USAGE = {
  prompt_tokens: 120,
  completion_tokens: 30,
  total_tokens: 150,
  prompt_tokens_details: { cached_tokens: 20 },
};
const CHAT_CALL = { id: "call_1", type: "function" };
const CHAT = { id: "chatcmpl-1", created: 1_700_000_000, model: "gpt-5-mini" };
const CHAT_CHUNK = { ...CHAT, object: "chat.completion.chunk" };
const chatDelta = (delta: Json, finish_reason: string | null = null) => ({
  ...CHAT_CHUNK,
  choices: [{ index: 0, delta, finish_reason }],
});
const CHAT_REPLY = {
  ...CHAT,
  object: "chat.completion",
  choices: [
    {
      index: 0,
      message: {
        role: "assistant",
        content: "Let me check.",
        tool_calls: [{ ...CHAT_CALL, function: { name: "weather", arguments: ARGUMENTS } }],
      },
      finish_reason: "tool_calls",
    },
  ],
  usage: CHAT_USAGE,
};
const CHAT_STREAM = [
  chatDelta({ role: "assistant", content: "" }),
  chatDelta({ content: "Let me " }),
  chatDelta({ content: "check." }),
  chatDelta({
    tool_calls: [{ index: 0, ...CHAT_CALL, function: { name: "weather", arguments: "" } }],
  }),
  chatDelta({ tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] }),
  chatDelta({ tool_calls: [{ index: 0, function: { arguments: '"Oslo"}' } }] }),
  chatDelta({}, "tool_calls"),
  { ...CHAT_CHUNK, choices: [], usage: CHAT_USAGE },
];

// ---- responses

const REASONING_ITEM = {
  id: "rs_1",
  type: "reasoning",
  summary: [{ type: "summary_text", text: "The user asks for the weather." }],
  encrypted_content: "gAAAAAB1",
};
const MESSAGE_ITEM = {
  id: "msg_1",
  type: "message",
  status: "completed",
  role: "assistant",
  content: [{ type: "output_text", annotations: [], logprobs: [], text: "Let me check." }],
};
const CALL_ITEM = {
  id: "fc_1",
  type: "function_call",
  status: "completed",
  call_id: "call_1",
  name: "weather",
  arguments: ARGUMENTS,
};
const RESPONSE = {
  id: "resp_1",
  object: "response",
  created_at: 1_700_000_000,
  status: "completed",
  model: "gpt-5-mini",
  output: [REASONING_ITEM, MESSAGE_ITEM, CALL_ITEM],
  usage: {
    input_tokens: 120,
    input_tokens_details: { cached_tokens: 20 },
    output_tokens: 30,
    output_tokens_details: { reasoning_tokens: 10 },
    total_tokens: 150,
  },
};
const RESPONSE_STREAM = [
  { type: "response.created", response: { ...RESPONSE, status: "in_progress", output: [] } },
  ...RESPONSE.output.flatMap((item, output_index) => [
    { type: "response.output_item.added", output_index, item },
    { type: "response.output_item.done", output_index, item },
  ]),
  { type: "response.completed", response: RESPONSE },
].map((event, sequence_number) => ({ ...event, sequence_number }));

// ---- messages

const MESSAGE = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-haiku-4-5",
  content: [
    { type: "thinking", thinking: "The user asks for the weather.", signature: SIGNATURE },
    { type: "text", text: "Let me check." },
    { type: "tool_use", id: "toolu_1", name: "weather", input: INPUT },
  ],
  stop_reason: "tool_use",
  stop_sequence: null,
  usage: { input_tokens: 100, cache_read_input_tokens: 20, output_tokens: 30 },
};
const [THINKING_BLOCK, TEXT_BLOCK, TOOL_BLOCK] = MESSAGE.content;
const MESSAGE_STREAM = [
  { type: "message_start", message: { ...MESSAGE, content: [], stop_reason: null } },
  ...[
    {
      start: { ...THINKING_BLOCK, thinking: "", signature: "" },
      deltas: [
        { type: "thinking_delta", thinking: THINKING_BLOCK?.thinking },
        { type: "signature_delta", signature: SIGNATURE },
      ],
    },
    { start: { ...TEXT_BLOCK, text: "" }, deltas: [{ type: "text_delta", text: "Let me check." }] },
    {
      start: { ...TOOL_BLOCK, input: {} },
      deltas: [{ type: "input_json_delta", partial_json: ARGUMENTS }],
    },
  ].flatMap(({ start, deltas }, index) => [
    { type: "content_block_start", index, content_block: start },
    ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ]),
  {
    type: "message_delta",
    delta: { stop_reason: "tool_use", stop_sequence: null },
    usage: MESSAGE.usage,
  },
  { type: "message_stop" },
];

// ---- gemini

const GEMINI_PARTS = [
  { text: "The user asks for the weather.", thought: true },
  { text: "Let me check." },
  { functionCall: { id: "call_1", name: "weather", args: INPUT }, thoughtSignature: SIGNATURE },
];
const geminiChunk = (parts: readonly Json[], finishReason?: string) => ({
  candidates: [{ index: 0, content: { role: "model", parts }, finishReason }],
  usageMetadata: {
    promptTokenCount: 120,
    cachedContentTokenCount: 20,
    candidatesTokenCount: 20,
    thoughtsTokenCount: 10,
    totalTokenCount: 150,
  },
  modelVersion: "gemini-3-flash-preview",
  responseId: "r_1",
});
const GEMINI_STREAM = [
  ...GEMINI_PARTS.map((part) => geminiChunk([part])),
  geminiChunk([{ text: "" }], "STOP"),
];

// ---- converse

const CONVERSE_USAGE = {
  inputTokens: 100,
  cacheReadInputTokens: 20,
  outputTokens: 30,
  totalTokens: 150,
};
const CONVERSE_THOUGHT = { text: "The user asks for the weather.", signature: SIGNATURE };
const CONVERSE_CALL = { toolUseId: "tooluse_1", name: "weather" };
const CONVERSE_REPLY = {
  output: {
    message: {
      role: "assistant",
      content: [
        { reasoningContent: { reasoningText: CONVERSE_THOUGHT } },
        { text: "Let me check." },
        { toolUse: { ...CONVERSE_CALL, input: INPUT } },
      ],
    },
  },
  stopReason: "tool_use",
  usage: CONVERSE_USAGE,
  metrics: { latencyMs: 100 },
};
const converseBlock = (contentBlockIndex: number, deltas: readonly Json[]) => [
  ...deltas.map((delta) => ["contentBlockDelta", { contentBlockIndex, delta }] as const),
  ["contentBlockStop", { contentBlockIndex }] as const,
];
const CONVERSE_STREAM: readonly (readonly [name: string, payload: Json])[] = [
  ["messageStart", { role: "assistant" }],
  ...converseBlock(0, [
    { reasoningContent: { text: CONVERSE_THOUGHT.text } },
    { reasoningContent: { signature: SIGNATURE } },
  ]),
  ...converseBlock(1, [{ text: "Let me " }, { text: "check." }]),
  ["contentBlockStart", { contentBlockIndex: 2, start: { toolUse: CONVERSE_CALL } }],
  ...converseBlock(2, [{ toolUse: { input: '{"city":' } }, { toolUse: { input: '"Oslo"}' } }]),
  ["messageStop", { stopReason: "tool_use" }],
  ["metadata", { usage: CONVERSE_USAGE, metrics: { latencyMs: 100 } }],
];

// ---- Recordings

const SAMPLES: Readonly<
  Record<
    RecordedWire,
    {
      readonly provider: string;
      readonly model: string;
      readonly stopReason: string;
      readonly reply: Json;
      readonly usage: Json;
      readonly stream: Uint8Array;
    }
  >
> = {
  chat: {
    provider: "openai",
    model: "gpt-5-mini",
    stopReason: "tool_calls",
    reply: CHAT_REPLY,
    usage: CHAT_USAGE,
    stream: Buffer.concat([sse(CHAT_STREAM), encoder.encode("data: [DONE]\n\n")]),
  },
  responses: {
    provider: "openai",
    model: "gpt-5-mini",
    stopReason: "completed",
    reply: RESPONSE,
    usage: RESPONSE.usage,
    stream: sse(RESPONSE_STREAM, true),
  },
  messages: {
    provider: "anthropic",
    model: "claude-haiku-4-5",
    stopReason: "tool_use",
    reply: MESSAGE,
    usage: MESSAGE.usage,
    stream: sse(MESSAGE_STREAM, true),
  },
  gemini: {
    provider: "google",
    model: "gemini-3-flash-preview",
    stopReason: "STOP",
    reply: geminiChunk(GEMINI_PARTS, "STOP"),
    usage: geminiChunk([]).usageMetadata,
    stream: sse(GEMINI_STREAM),
  },
  converse: {
    provider: "bedrock",
    model: "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    stopReason: "tool_use",
    reply: CONVERSE_REPLY,
    usage: CONVERSE_USAGE,
    stream: Buffer.concat(
      CONVERSE_STREAM.map(([name, payload]) =>
        encodeFrame({ name, data: JSON.stringify(payload) }),
      ),
    ),
  },
};

/** The sample replies of a wire: one whole, one streamed. */
export function sampleRecordings(wire: RecordedWire): readonly Recording[] {
  const { provider, model, stopReason, reply, usage, stream } = SAMPLES[wire];
  const recording = (responseBody: Uint8Array, bodyFormat: BodyFormat): Recording => ({
    file: `sample-${wire}-${bodyFormat}`,
    interaction: 0,
    provider,
    endpoint: "",
    wire,
    model,
    stream: bodyFormat !== "json",
    status: 200,
    url: "",
    requestBody: undefined,
    responseBody,
    responseHeaders: {},
    bodyForm: "raw",
    bodyFormat,
    summary: { features: [], stopReasons: [stopReason], usage },
  });
  return [
    recording(encoder.encode(JSON.stringify(reply)), "json"),
    recording(stream, wire === "converse" ? "frames" : "sse"),
  ];
}
