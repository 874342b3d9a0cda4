// Simulates OpenAI's Responses API.

import { arrayIn, isObject, type JsonObject, objectOrEmpty, stringsOf } from "../json-readers.ts";
import type { ToolCall, Reply } from "../reply/compose-reply.ts";
import { hashText, hexFrom, base62From, opaqueTextFrom } from "../reply/hash.ts";
import { openAiLogprobs } from "../reply/logprobs.ts";
import { countTokens, cutToPieces } from "../reply/tokens.ts";
import { openAiCommon } from "./openai-common.ts";
import { parseResponsesRequest } from "./responses-request.ts";
import {
  namedEvent,
  applyUsageFault,
  SSE_CONTENT_TYPE,
  type Frame,
  type SimulatedWire,
} from "./simulated-wire.ts";

export const responsesWire: SimulatedWire = {
  ...openAiCommon,
  name: "responses",
  cachesImplicitly: true,
  newline: "lf",
  parseRequest: parseResponsesRequest,
  replyBody: (reply) => finalResponse(reply, itemsOf(reply)),
  streamReply: responseEvents,
  toConversation: (reply) => ({
    id: responseId(reply),
    items: [...reply.request.items, ...itemsOf(reply)],
  }),
  streamContentType: () => SSE_CONTENT_TYPE,
  // The Responses API sends 400 where Chat Completions sends 404.
  modelNotFound: (model) => ({
    status: 400,
    message: `The requested model '${model}' does not exist.`,
    param: "model",
    code: "model_not_found",
  }),
  errorFrame: (message, sent) => ({
    data: namedEvent("error", {
      type: "error",
      sequence_number: sent,
      code: "server_error",
      message,
      param: null,
    }),
  }),
  malformedFrame: {
    data: 'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"tor\n\n',
  },
  keepaliveFrame: { data: ": keepalive\n\n" },
};

/** POST /responses/compact: the user's messages and an item that only the provider can read. */
export const compactWire: SimulatedWire = {
  ...responsesWire,
  replyBody: (reply) => {
    const { input } = reply.request.body;
    const messages = arrayIn(input).filter((item) => objectOrEmpty(item)["role"] === "user");
    const usage = responsesUsage(reply);
    return {
      id: responseId(reply),
      object: "response.compaction",
      created_at: reply.createdSeconds,
      output: [
        ...messages,
        {
          id: `cmp_${hexFrom(reply.seed, 50)}`,
          type: "compaction",
          encrypted_content: `gAAAAAB${opaqueTextFrom(reply.seed, 120)}`,
        },
      ],
      ...(usage === undefined ? {} : { usage }),
    };
  },
};

function responseId(reply: Reply): string {
  return `resp_${hexFrom(reply.seed, 50)}`;
}

type OutputItem = JsonObject & { readonly id: string; readonly type: string };

function itemsOf(reply: Reply): OutputItem[] {
  const { first } = reply;
  const items: OutputItem[] = [];
  const id = (prefix: string, part: string): string =>
    `${prefix}_${hexFrom(hashText(part, reply.seed | 0), 50)}`;
  if (first.reasoning !== "") {
    items.push({
      id: id("rs", "reasoning"),
      type: "reasoning",
      summary: reasoningSummary(reply),
      ...encryptedContent(reply),
    });
  }
  if (first.text !== "" || first.refusal !== "") {
    const content = [contentPart(reply)];
    items.push({
      id: id("msg", "message"),
      type: "message",
      status: statusOf(reply),
      content,
      role: "assistant",
    });
  }
  for (const [index, call] of first.toolCalls.entries())
    items.push(callItem(call, id("fc", `call ${index}`)));
  return items;
}

function callItem(call: ToolCall, id: string): OutputItem {
  const status = call.isComplete ? "completed" : "incomplete";
  const callId = `call_${base62From(call.seed, 24)}`;
  const named = {
    name: call.name,
    ...(call.namespace === undefined ? {} : { namespace: call.namespace }),
  };
  return call.isFreeform
    ? {
        id: id.replace(/^fc/, "ctc"),
        type: "custom_tool_call",
        status,
        call_id: callId,
        input: call.input,
        ...named,
      }
    : { id, type: "function_call", status, arguments: call.input, call_id: callId, ...named };
}

function contentPart(reply: Reply): JsonObject {
  const { refusal, text } = reply.first;
  return refusal === ""
    ? { type: "output_text", annotations: [], logprobs: logprobsOf(reply, text), text }
    : { type: "refusal", refusal };
}

function logprobsOf({ request: { body } }: Reply, text: string): JsonObject[] {
  return stringsOf(body["include"]).includes("message.output_text.logprobs")
    ? openAiLogprobs(text, Number(body["top_logprobs"] ?? 0))
    : [];
}

function reasoningSummary(reply: Reply): JsonObject[] {
  const requestedSummary =
    objectOrEmpty(reply.request.body["reasoning"])["summary"] ??
    objectOrEmpty(reply.request.body["reasoning"])["generate_summary"];
  return typeof requestedSummary === "string"
    ? [{ type: "summary_text", text: reply.first.reasoning }]
    : [];
}

function encryptedContent(reply: Reply): JsonObject {
  const isRequested = stringsOf(reply.request.body["include"]).includes(
    "reasoning.encrypted_content",
  );
  return isRequested ? { encrypted_content: `gAAAAAB${opaqueTextFrom(reply.seed, 120)}` } : {};
}

function statusOf(reply: Reply): "completed" | "incomplete" {
  return reply.first.finishReason === "length" || reply.first.finishReason === "filter"
    ? "incomplete"
    : "completed";
}

function finalResponse(reply: Reply, items: readonly OutputItem[]): JsonObject {
  const status = statusOf(reply);
  const reason = reply.first.finishReason === "filter" ? "content_filter" : "max_output_tokens";
  const usage = responsesUsage(reply);
  return {
    ...responseEnvelope(reply, items),
    status,
    completed_at: status === "completed" ? reply.createdSeconds : null,
    incomplete_details: status === "completed" ? null : { reason },
    service_tier: reply.serviceTier ?? "default",
    ...(usage === undefined ? {} : { usage }),
  };
}

/** Request settings that the response echoes, with their defaults. */
const ECHOED_SETTINGS: JsonObject = {
  background: false,
  frequency_penalty: 0,
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  parallel_tool_calls: true,
  presence_penalty: 0,
  previous_response_id: null,
  prompt_cache_key: null,
  prompt_cache_retention: null,
  safety_identifier: null,
  service_tier: "auto",
  store: true,
  temperature: 1,
  tool_choice: "auto",
  top_logprobs: 0,
  top_p: 1,
  truncation: "disabled",
  user: null,
  metadata: {},
};

const FUNCTION_DEFAULTS: JsonObject = { description: null, parameters: null, strict: true };

function echoTool(tool: unknown): unknown {
  return isObject(tool) && tool["type"] === "function" ? { ...FUNCTION_DEFAULTS, ...tool } : tool;
}

function responseEnvelope(reply: Reply, items: readonly OutputItem[]): JsonObject {
  const { body } = reply.request;
  const reasoning = objectOrEmpty(body["reasoning"]);
  const text = objectOrEmpty(body["text"]);
  return {
    id: responseId(reply),
    object: "response",
    created_at: reply.createdSeconds,
    status: "in_progress",
    completed_at: null,
    error: null,
    incomplete_details: null,
    model: reply.model,
    output: items,
    ...Object.fromEntries(
      Object.entries(ECHOED_SETTINGS).map(([name, value]) => [name, body[name] ?? value]),
    ),
    tools: arrayIn(body["tools"]).map(echoTool),
    reasoning: { effort: reasoning["effort"] ?? null, summary: reasoning["summary"] ?? null },
    text: { format: text["format"] ?? { type: "text" }, verbosity: text["verbosity"] ?? "medium" },
    usage: null,
  };
}

function responsesUsage(reply: Reply): JsonObject | undefined {
  const { input, output, cacheRead, cacheWrite5m, cacheWrite1h, reasoning } = reply.counts;
  const promptTotal = input + cacheRead + cacheWrite5m + cacheWrite1h;
  return applyUsageFault(
    {
      input_tokens: promptTotal,
      input_tokens_details: {
        cached_tokens: cacheRead,
        cache_write_tokens: cacheWrite5m + cacheWrite1h,
      },
      output_tokens: output + reasoning,
      output_tokens_details: { reasoning_tokens: reasoning },
      total_tokens: promptTotal + output + reasoning,
    },
    reply.directives,
  );
}

type ResponseEvent = JsonObject & { readonly type: string };

function* responseEvents(reply: Reply): Generator<Frame> {
  const items = itemsOf(reply);
  const opening = responseEnvelope(reply, []);
  let sequence = 0;
  const frame = (event: ResponseEvent): string =>
    namedEvent(event.type, { ...event, sequence_number: sequence++ });
  yield { data: frame({ type: "response.created", response: opening }) };
  yield { data: frame({ type: "response.in_progress", response: opening }) };
  for (const [index, item] of items.entries()) {
    yield {
      data: frame({
        type: "response.output_item.added",
        output_index: index,
        item: itemAtStart(item),
      }),
    };
    for (const event of itemEvents(reply, item)) {
      const data = frame({ ...event, item_id: item.id, output_index: index });
      yield event.type.endsWith(".delta") ? { data, isDelta: true } : { data };
    }
    yield { data: frame({ type: "response.output_item.done", output_index: index, item }) };
  }
  const last = `response.${statusOf(reply)}`;
  yield {
    data: frame({ type: last, response: finalResponse(reply, items) }),
    isUsage: true,
    isTerminal: true,
  };
}

function itemAtStart(item: OutputItem): JsonObject {
  switch (item.type) {
    case "reasoning":
      return { ...item, summary: [] };
    case "message":
      return { ...item, status: "in_progress", content: [] };
    case "custom_tool_call":
      return { ...item, status: "in_progress", input: "" };
    default:
      return { ...item, status: "in_progress", arguments: "" };
  }
}

function itemEvents(reply: Reply, item: OutputItem): Iterable<ResponseEvent> {
  switch (item.type) {
    case "reasoning":
      return reasoningEvents(reasoningSummary(reply));
    case "message":
      return reply.first.refusal === "" ? textEvents(reply) : refusalEvents(reply.first.refusal);
    case "custom_tool_call":
      return inputEvents("response.custom_tool_call_input", String(item["input"]), "input");
    default:
      return inputEvents(
        "response.function_call_arguments",
        String(item["arguments"]),
        "arguments",
      );
  }
}

function* reasoningEvents(summary: readonly JsonObject[]): Generator<ResponseEvent> {
  for (const [index, part] of summary.entries()) {
    const at = { summary_index: index };
    const text = String(part["text"]);
    yield {
      type: "response.reasoning_summary_part.added",
      ...at,
      part: { type: "summary_text", text: "" },
    };
    for (const delta of cutToPieces(text, 16))
      yield { type: "response.reasoning_summary_text.delta", ...at, delta };
    yield { type: "response.reasoning_summary_text.done", ...at, text };
    yield { type: "response.reasoning_summary_part.done", ...at, part };
  }
}

function* textEvents(reply: Reply): Generator<ResponseEvent> {
  const { text, pieces } = reply.first;
  const at = { content_index: 0 };
  const part = contentPart(reply);
  yield { type: "response.content_part.added", ...at, part: { ...part, text: "", logprobs: [] } };
  for (const delta of pieces)
    yield { type: "response.output_text.delta", ...at, delta, logprobs: logprobsOf(reply, delta) };
  yield { type: "response.output_text.done", ...at, text, logprobs: part["logprobs"] };
  yield { type: "response.content_part.done", ...at, part };
}

function* refusalEvents(refusal: string): Generator<ResponseEvent> {
  const at = { content_index: 0 };
  yield { type: "response.content_part.added", ...at, part: { type: "refusal", refusal: "" } };
  for (const delta of cutToPieces(refusal, 8))
    yield { type: "response.refusal.delta", ...at, delta };
  yield { type: "response.refusal.done", ...at, refusal };
  yield { type: "response.content_part.done", ...at, part: { type: "refusal", refusal } };
}

function* inputEvents(name: string, input: string, field: string): Generator<ResponseEvent> {
  for (const delta of cutToPieces(input, Math.min(32, countTokens(input))))
    yield { type: `${name}.delta`, delta };
  yield { type: `${name}.done`, [field]: input };
}
