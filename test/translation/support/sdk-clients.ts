// The official clients of the three APIs behind one interface, so that a test is written once for all. They are used as
// documented, and their replies are normalized.

import type Anthropic from "@anthropic-ai/sdk";
import type OpenAI from "openai";
import { anthropicFor, type Api, type Json, openaiFor, type Harness } from "./harness.ts";

export interface Prompt {
  readonly model: string;
  readonly text: string;
  readonly maxTokens?: number;
  readonly tools?: Readonly<Record<string, object>>;
  readonly toolChoice?: "required";
  readonly schema?: object;
  /** A PNG in base64. */
  readonly image?: string;
  readonly effort?: "low" | "medium" | "high";
  /** The client's reply to the same text, sent back unchanged with the results of its calls. */
  readonly previousReply?: NormalizedReply;
  readonly toolResults?: readonly string[];
  readonly extraFields?: Json;
}

export interface NormalizedReply {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly arguments: unknown;
  }[];
  readonly finish: string;
  readonly usage: {
    readonly input: number;
    readonly cached: number;
    readonly cacheWritten: number;
    readonly output: number;
    readonly reasoning: number;
    readonly cost: number;
  };
  /** The client's own message object, to send back. */
  readonly raw: unknown;
}

export interface SdkClient {
  readonly complete: (prompt: Prompt) => Promise<NormalizedReply>;
  readonly stream: (prompt: Prompt) => Promise<NormalizedReply>;
  /** The HTTP status of the error that the client throws. */
  readonly status: (prompt: Prompt) => Promise<unknown>;
}

export function createSdkClients(
  world: Harness,
  key = world.account.key,
): Readonly<Record<Api, SdkClient>> {
  return {
    chat: chatClient(openaiFor(world, key)),
    responses: responsesClient(openaiFor(world, key)),
    messages: messagesClient(anthropicFor(world, key)),
  };
}

async function statusOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
    return 200;
  } catch (error) {
    return (error as { status?: unknown }).status ?? String(error);
  }
}

const DEFAULT_MAX_TOKENS = 4_000;
const resultsOf = ({ previousReply, toolResults = [] }: Prompt) =>
  (previousReply?.calls ?? []).map((call, at) => ({ call, result: toolResults[at] ?? "nothing" }));

// ---- Chat Completions

function chatBody(prompt: Prompt): OpenAI.ChatCompletionCreateParamsNonStreaming {
  const {
    model,
    text,
    maxTokens = DEFAULT_MAX_TOKENS,
    tools,
    toolChoice,
    schema,
    image,
    effort,
    previousReply,
  } = prompt;
  const content: OpenAI.ChatCompletionContentPart[] | string =
    image === undefined
      ? text
      : [
          { type: "text", text },
          { type: "image_url", image_url: { url: `data:image/png;base64,${image}` } },
        ];
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content }];
  if (previousReply !== undefined) {
    messages.push(previousReply.raw as OpenAI.ChatCompletionMessageParam);
    for (const { call, result } of resultsOf(prompt))
      messages.push({ role: "tool", tool_call_id: call.id, content: result });
  }
  return {
    model,
    messages,
    max_completion_tokens: maxTokens,
    ...(tools === undefined
      ? {}
      : {
          tools: Object.entries(tools).map(([name, parameters]) => ({
            type: "function" as const,
            function: { name, description: `the ${name}`, parameters: parameters as Json },
          })),
        }),
    ...(toolChoice === undefined ? {} : { tool_choice: toolChoice }),
    ...(schema === undefined
      ? {}
      : {
          response_format: {
            type: "json_schema" as const,
            json_schema: { name: "answer", schema: schema as Json, strict: true },
          },
        }),
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    ...prompt.extraFields,
  };
}

function chatClient(client: OpenAI): SdkClient {
  const complete = async (prompt: Prompt) =>
    normalizeChat(await client.chat.completions.create(chatBody(prompt)));
  return {
    complete,
    stream: async (prompt) =>
      normalizeChat(
        await client.chat.completions
          .stream({ ...chatBody(prompt), stream: true, stream_options: { include_usage: true } })
          .finalChatCompletion(),
      ),
    status: (prompt) => statusOf(complete(prompt)),
  };
}

function normalizeChat(completion: OpenAI.ChatCompletion): NormalizedReply {
  const choice = completion.choices[0];
  const message = choice?.message;
  const { usage } = completion;
  const reasoning = (message as { reasoning_content?: string | null } | undefined)
    ?.reasoning_content;
  const details: { cached_tokens?: number; cache_write_tokens?: number } | undefined =
    usage?.prompt_tokens_details;
  return {
    text: message?.content ?? "",
    reasoning: reasoning ?? "",
    calls: (message?.tool_calls ?? []).map((call) =>
      call.type === "function"
        ? { id: call.id, name: call.function.name, arguments: argumentsOf(call.function.arguments) }
        : { id: call.id, name: call.custom.name, arguments: call.custom.input },
    ),
    finish: choice?.finish_reason ?? "",
    usage: {
      input: usage?.prompt_tokens ?? -1,
      cached: details?.cached_tokens ?? 0,
      cacheWritten: details?.cache_write_tokens ?? 0,
      output: usage?.completion_tokens ?? -1,
      reasoning: usage?.completion_tokens_details?.reasoning_tokens ?? 0,
      cost: costOf(usage),
    },
    raw: message,
  };
}

// ---- Responses

function responsesBody(prompt: Prompt): OpenAI.Responses.ResponseCreateParamsNonStreaming {
  const {
    model,
    text,
    maxTokens = DEFAULT_MAX_TOKENS,
    tools,
    toolChoice,
    schema,
    image,
    effort,
    previousReply,
  } = prompt;
  const input: OpenAI.Responses.ResponseInputItem[] = [
    {
      role: "user",
      content:
        image === undefined
          ? text
          : [
              { type: "input_text", text },
              {
                type: "input_image",
                image_url: `data:image/png;base64,${image}`,
                detail: "auto",
              },
            ],
    },
  ];
  if (previousReply !== undefined) {
    input.push(...(previousReply.raw as OpenAI.Responses.ResponseInputItem[]));
    for (const { call, result } of resultsOf(prompt))
      input.push({ type: "function_call_output", call_id: call.id, output: result });
  }
  return {
    model,
    input,
    max_output_tokens: maxTokens,
    ...(tools === undefined
      ? {}
      : {
          tools: Object.entries(tools).map(([name, parameters]) => ({
            type: "function" as const,
            name,
            description: `the ${name}`,
            parameters: parameters as Json,
            strict: false,
          })),
        }),
    ...(toolChoice === undefined ? {} : { tool_choice: toolChoice }),
    ...(schema === undefined
      ? {}
      : {
          text: {
            format: {
              type: "json_schema" as const,
              name: "answer",
              schema: schema as Json,
              strict: true,
            },
          },
        }),
    ...(effort === undefined
      ? {}
      : {
          reasoning: { effort, summary: "auto" as const },
          include: ["reasoning.encrypted_content" as const],
        }),
    ...prompt.extraFields,
  };
}

function responsesClient(client: OpenAI): SdkClient {
  const complete = async (prompt: Prompt) =>
    normalizeResponse(await client.responses.create(responsesBody(prompt)));
  return {
    complete,
    stream: async (prompt) => {
      const stream = client.responses.stream({ ...responsesBody(prompt), stream: true });
      let failed: unknown;
      stream.on("error", (error) => {
        failed = error;
      });
      const final = await stream.finalResponse();
      if (failed !== undefined) throw failed;
      if (final.status === "failed") throw new Error(final.error?.message ?? "failed");
      return normalizeResponse(final);
    },
    status: (prompt) => statusOf(complete(prompt)),
  };
}

function normalizeResponse(response: OpenAI.Responses.Response): NormalizedReply {
  const calls: { id: string; name: string; arguments: unknown }[] = [];
  let reasoning = "";
  let refusal = "";
  for (const item of response.output) {
    if (item.type === "function_call")
      calls.push({ id: item.call_id, name: item.name, arguments: argumentsOf(item.arguments) });
    if (item.type === "custom_tool_call")
      calls.push({ id: item.call_id, name: item.name, arguments: item.input });
    if (item.type === "reasoning")
      reasoning += [...(item.content ?? []), ...item.summary].map((part) => part.text).join("");
    if (item.type === "message")
      for (const part of item.content) if (part.type === "refusal") refusal += part.refusal;
  }
  const { usage } = response;
  const details = usage?.input_tokens_details as
    | { cached_tokens?: number; cache_write_tokens?: number }
    | undefined;
  return {
    text: response.output_text + refusal,
    reasoning,
    calls,
    finish: finishOfResponse(response, calls.length),
    usage: {
      input: usage?.input_tokens ?? -1,
      cached: details?.cached_tokens ?? 0,
      cacheWritten: details?.cache_write_tokens ?? 0,
      output: usage?.output_tokens ?? -1,
      reasoning: usage?.output_tokens_details.reasoning_tokens ?? 0,
      cost: costOf(usage),
    },
    raw: response.output,
  };
}

function finishOfResponse(response: OpenAI.Responses.Response, calls: number): string {
  const reason = response.incomplete_details?.reason;
  if (reason === "max_output_tokens") return "length";
  if (reason !== undefined) return reason;
  return calls > 0 ? "tool_calls" : "stop";
}

// ---- Messages

function messagesBody(prompt: Prompt): Anthropic.MessageCreateParamsNonStreaming {
  const {
    model,
    text,
    maxTokens = DEFAULT_MAX_TOKENS,
    tools,
    toolChoice,
    schema,
    image,
    effort,
    previousReply,
  } = prompt;
  const content: Anthropic.ContentBlockParam[] | string =
    image === undefined
      ? text
      : [
          { type: "text", text },
          { type: "image", source: { type: "base64", media_type: "image/png", data: image } },
        ];
  const messages: Anthropic.MessageParam[] = [{ role: "user", content }];
  if (previousReply !== undefined) {
    messages.push({
      role: "assistant",
      content: previousReply.raw as Anthropic.ContentBlockParam[],
    });
    messages.push({
      role: "user",
      content: resultsOf(prompt).map(({ call, result }) => ({
        type: "tool_result" as const,
        tool_use_id: call.id,
        content: result,
      })),
    });
  }
  return {
    model,
    messages,
    max_tokens: maxTokens,
    ...(tools === undefined
      ? {}
      : {
          tools: Object.entries(tools).map(([name, schemaOf]) => ({
            name,
            description: `the ${name}`,
            input_schema: schemaOf as Anthropic.Tool.InputSchema,
          })),
        }),
    ...(toolChoice === undefined ? {} : { tool_choice: { type: "any" as const } }),
    ...(schema === undefined && effort === undefined
      ? {}
      : {
          output_config: {
            ...(schema === undefined
              ? {}
              : { format: { type: "json_schema" as const, schema: schema as Json } }),
            ...(effort === undefined ? {} : { effort }),
          },
        }),
    ...(effort === undefined
      ? {}
      : { thinking: { type: "adaptive" as const, display: "summarized" as const } }),
    ...prompt.extraFields,
  };
}

function messagesClient(client: Anthropic): SdkClient {
  const complete = async (prompt: Prompt) =>
    normalizeMessage(await client.messages.create(messagesBody(prompt)));
  return {
    complete,
    stream: async (prompt) => {
      // The client's accumulator drops unknown usage fields, so read the cost from the event.
      let cost = -1;
      const stream = client.messages.stream(messagesBody(prompt));
      stream.on("streamEvent", (event) => {
        if (event.type === "message_delta") cost = costOf(event.usage);
      });
      const reply = normalizeMessage(await stream.finalMessage());
      return { ...reply, usage: { ...reply.usage, cost } };
    },
    status: (prompt) => statusOf(complete(prompt)),
  };
}

const FINISH_OF_MESSAGES: Readonly<Record<string, string>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  pause_turn: "stop",
  tool_use: "tool_calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content_filter",
};

function normalizeMessage(message: Anthropic.Message): NormalizedReply {
  const { usage } = message;
  const texts = message.content.map((block) => (block.type === "text" ? block.text : ""));
  const thoughts = message.content.map((block) =>
    block.type === "thinking" ? block.thinking : "",
  );
  const cached = usage.cache_read_input_tokens ?? 0;
  const cacheWritten = usage.cache_creation_input_tokens ?? 0;
  const { output_tokens_details: details } = usage as {
    output_tokens_details?: { thinking_tokens?: number } | null;
  };
  return {
    text: texts.join(""),
    reasoning: thoughts.join(""),
    calls: message.content.flatMap((block) =>
      block.type === "tool_use" ? [{ id: block.id, name: block.name, arguments: block.input }] : [],
    ),
    finish: FINISH_OF_MESSAGES[message.stop_reason ?? ""] ?? String(message.stop_reason),
    usage: {
      input: usage.input_tokens + cached + cacheWritten,
      cached,
      cacheWritten,
      output: usage.output_tokens,
      reasoning: details?.thinking_tokens ?? 0,
      cost: costOf(usage),
    },
    raw: message.content,
  };
}

function costOf(usage: unknown): number {
  return (usage as { cost?: number } | null | undefined)?.cost ?? -1;
}

function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text === "" ? "{}" : text);
  } catch {
    return text;
  }
}
