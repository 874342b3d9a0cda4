// The tools that take a message for a model: their arguments, and the result of a call.

import { createSseParser, readSse } from "@postern/wires";
import { z } from "zod";
import { invalid } from "../base/fault.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  objectIn,
  parseObject,
  stringIn,
} from "../base/json.ts";
import { errorResult, resultOf, successResult } from "./tool-result.ts";
import type { ToolCall, ToolContext, ToolResult } from "./tool.ts";

const MAX_COST = {
  max_cost_usd: z
    .union([z.number(), z.string()])
    .optional()
    .meta({ description: "The most that the call may cost." }),
};

export const MessageArguments = z.looseObject({
  model: z.string().meta({
    description: "A model id from `list_models`: `<provider>/<name>`.",
    example: "sim/echo",
  }),
  prompt: z
    .string()
    .optional()
    .meta({ description: "The message. Give either this or `messages`." }),
  system: z.string().optional().meta({ description: "Instructions, sent before the message." }),
  messages: z
    .array(
      z.looseObject({
        role: z.string(),
        content: z
          .union([z.string(), z.array(z.looseObject({}))])
          .nullable()
          .optional(),
      }),
    )
    .optional()
    .meta({ description: "A conversation, as `messages` of Chat Completions." }),
  max_tokens: z
    .int()
    .optional()
    .meta({ description: "The most output tokens. The call holds credits for all of them." }),
  ...MAX_COST,
});

export const MessageResult = z.object({
  id: z.string().meta({ description: "The id of the completion." }),
  request_id: z.string().meta({ description: "The id of the usage record." }),
  model: z.string(),
  text: z.string(),
  finish_reason: z.string().nullable(),
  tool_calls: z.array(z.looseObject({})).optional(),
  usage: z.looseObject({}).optional(),
  cost_usd: z.number().optional().meta({ description: "What the call cost, in US dollars." }),
  budget_cut: z.boolean().optional(),
});

export const ResponseArguments = z.looseObject({
  model: z.string(),
  input: z.string().meta({ description: "The message." }),
  previous_response_id: z.string().optional(),
  background: z.boolean().optional(),
  max_output_tokens: z.int().optional(),
  ...MAX_COST,
});

export const ResponseResult = z.object({
  id: z.string(),
  status: z.string(),
  model: z.string(),
  text: z.string(),
  output: z.array(z.looseObject({})).optional().meta({ description: "Without messages." }),
  usage: z.looseObject({}).optional(),
  cost_usd: z.number().optional(),
  budget_cut: z.boolean().optional(),
});

export function responseResult(
  response: Response,
  _call: ToolCall,
  context: ToolContext,
): Promise<ToolResult> {
  const cut = cutOf(response.headers);
  return resultOf(response, context, (body) => ({ ...presentResponse(body), ...cut }));
}

/** Whether the output limit was lowered to what the call may cost. */
function cutOf(headers: Headers): JsonObject {
  return headers.get("x-postern-budget-cut") === "true" ? { budget_cut: true } : {};
}

/** The arguments as fields of the body. */
export function withCeiling({ max_cost_usd: max, ...fields }: JsonObject): JsonObject {
  if (max === undefined) return fields;
  return { ...fields, postern: { ...objectIn(fields["postern"]), max_cost_usd: max } };
}

function presentResponse(body: JsonObject): JsonObject {
  const items = arrayIn(body["output"]).filter(isObject);
  const parts = items
    .filter(({ type }) => type === "message")
    .flatMap(({ content }) => arrayIn(content).filter(isObject));
  const others = items.filter(({ type }) => type !== "message");
  const { request_id: _record, ...fields } = commonFields(body, "");
  return {
    ...fields,
    status: body["status"],
    text: parts.map(({ text }) => stringIn(text) ?? "").join(""),
    ...(others.length === 0 ? {} : { output: others }),
  };
}

/** The body of a chat completion. Arguments without a meaning of their own are fields of Chat Completions. */
export function chatFields(args: JsonObject): JsonObject {
  const { prompt, system, messages, ...fields } = withCeiling(args);
  if ((prompt === undefined) === (messages === undefined))
    throw invalid("prompt", "Give either `prompt` or `messages`.");
  const conversation =
    prompt === undefined ? arrayIn(messages) : [{ role: "user", content: prompt }];
  const instructions = system === undefined ? [] : [{ role: "system", content: system }];
  return { ...fields, messages: [...instructions, ...conversation] };
}

/** Sends the call as a stream if the client wants progress, and the text is all that it can return. */
export function streamedFields(call: ToolCall): JsonObject {
  const { stream: _stream, ...fields } = chatFields(call.args);
  const isStreamed =
    call.onProgress !== undefined && fields["n"] === undefined && fields["tools"] === undefined;
  return isStreamed ? { ...fields, stream: true, stream_options: { include_usage: true } } : fields;
}

export async function messageResult(
  response: Response,
  call: ToolCall,
  context: ToolContext,
): Promise<ToolResult> {
  const requestId = response.headers.get("x-request-id") ?? "";
  const isStream = response.headers.get("content-type")?.includes("text/event-stream") === true;
  if (!isStream || response.body === null)
    return resultOf(response, context, (body) => ({
      ...presentCompletion(body, requestId),
      ...cutOf(response.headers),
    }));
  return readStream(response.body, { call, context, requestId, headers: response.headers });
}

function presentCompletion(body: JsonObject, requestId: string): JsonObject {
  const choice = objectIn(arrayIn(body["choices"])[0]) ?? {};
  const message = objectIn(choice["message"]) ?? {};
  const toolCalls = message["tool_calls"];
  return {
    ...commonFields(body, requestId),
    text: stringIn(message["content"]) ?? "",
    finish_reason: choice["finish_reason"] ?? null,
    ...(Array.isArray(toolCalls) ? { tool_calls: toolCalls } : {}),
  };
}

function commonFields(body: JsonObject, requestId: string): JsonObject {
  const { id, model, usage } = body;
  const cost = objectIn(usage)?.["cost"];
  return {
    id,
    request_id: requestId,
    model,
    ...(isObject(usage) ? { usage } : {}),
    ...(typeof cost === "number" ? { cost_usd: cost } : {}),
  };
}

/** Characters of the reply between two progress notifications. */
const PROGRESS_EVERY_CHARACTERS = 200;

interface StreamContext {
  readonly call: ToolCall;
  readonly context: ToolContext;
  readonly requestId: string;
  readonly headers: Headers;
}

async function readStream(
  stream: ReadableStream<Uint8Array>,
  { call, context, requestId, headers }: StreamContext,
): Promise<ToolResult> {
  const parser = createSseParser();
  let text = "";
  let reported = 0;
  let finishReason: unknown = null;
  const last: Record<string, unknown> = {};
  for await (const chunk of stream)
    for (const event of parser.push(chunk)) {
      const data = parseObject(readSse(event)?.data ?? "");
      if (data === undefined) continue;
      if (data["error"] !== undefined) return errorResult(headers, data, "", context);
      const choice = objectIn(arrayIn(data["choices"])[0]);
      text += stringIn(objectIn(choice?.["delta"])?.["content"]) ?? "";
      finishReason = choice?.["finish_reason"] ?? finishReason;
      Object.assign(last, data);
      if (text.length - reported < PROGRESS_EVERY_CHARACTERS) continue;
      reported = text.length;
      await call.onProgress?.(reported, `${reported} characters received`);
    }
  return successResult({
    ...commonFields(last, requestId),
    text,
    finish_reason: finishReason,
    ...cutOf(headers),
  });
}
