// Parses a Converse request into the canonical form, for round-trip tests.

import type { JsonObject } from "../../../../src/base/json.ts";
import type { CacheBreakpoint, Part, ToolResultPart } from "../../src/canonical/canonical-parts.ts";
import type {
  CanonicalRequest,
  Tool,
  ToolChoice,
  Turn,
} from "../../src/canonical/canonical-request.ts";
import type {
  ConverseBlock,
  ConverseBody,
  ConverseCachePoint,
  ConverseMessage,
} from "./converse-types.ts";

export function parseConverseRequest(body: ConverseBody, path: string): CanonicalRequest {
  const { inferenceConfig: config = {}, additionalModelRequestFields: own = {} } = body;
  const system: Turn[] =
    body.system === undefined ? [] : [{ role: "system", parts: readBlocks(body.system) }];
  return {
    model: "deep-1",
    turns: [...system, ...body.messages.flatMap(readMessage)],
    stream: path.endsWith("/converse-stream") || undefined,
    tools: readTools(body),
    toolChoice: readChoice(body),
    output: readOutput(body),
    maxOutputTokens: config.maxTokens,
    temperature: config.temperature,
    topP: config.topP,
    topK: typeof own["top_k"] === "number" ? own["top_k"] : undefined,
    stop: config.stopSequences,
    metadata: body.requestMetadata,
    serviceTier: body.serviceTier?.type,
  };
}

function readMessage({ role, content }: ConverseMessage): Turn[] {
  if (role === "assistant") return [{ role: "assistant", parts: readBlocks(content) }];
  const parts = readBlocks(content);
  const results = parts.filter((part) => part.type === "tool_result");
  const rest = parts.filter((part) => part.type !== "tool_result");
  const turns: Turn[] = [];
  if (results.length > 0) turns.push({ role: "tool", parts: results });
  if (rest.length > 0) turns.push({ role: "user", parts: rest });
  return turns;
}

function cacheBreakpointOf(next: ConverseCachePoint | undefined): CacheBreakpoint | undefined {
  const point = next?.cachePoint;
  if (point === undefined) return undefined;
  return point.ttl === undefined ? {} : { ttl: point.ttl };
}

// A cache point is a block after the content that it ends.
function readBlocks(blocks: readonly ConverseBlock[]): Part[] {
  return blocks.flatMap((block, at) => {
    if (block.cachePoint !== undefined) return [];
    const part = readBlock(block);
    const cache = cacheBreakpointOf(blocks[at + 1]);
    return cache === undefined ? [part] : [Object.assign(part, { cache })];
  });
}

function readBlock(block: ConverseBlock): Part {
  const { text, image, toolUse, toolResult, reasoningContent } = block;
  if (text !== undefined) return { type: "text", text };
  if (image !== undefined)
    return {
      type: "image",
      source: {
        kind: "base64",
        mediaType: `image/${image.format}`,
        data: image.source.bytes ?? "",
      },
    };
  if (toolUse !== undefined)
    return {
      type: "tool_call",
      id: toolUse.toolUseId,
      name: toolUse.name,
      arguments: JSON.stringify(toolUse.input),
    };
  if (toolResult !== undefined)
    return {
      type: "tool_result",
      callId: toolResult.toolUseId,
      content: readBlocks(toolResult.content) as ToolResultPart["content"],
      isError: toolResult.status === "error" || undefined,
    };
  const { reasoningText, redactedContent } = reasoningContent ?? {};
  if (redactedContent !== undefined)
    return {
      type: "reasoning",
      text: "",
      blob: { wire: "converse", kind: "encrypted", data: redactedContent },
    };
  return {
    type: "reasoning",
    text: reasoningText?.text ?? "",
    blob: { wire: "converse", kind: "signature", data: reasoningText?.signature ?? "" },
  };
}

function readTools({ toolConfig }: ConverseBody): Tool[] | undefined {
  return toolConfig?.tools.flatMap(({ toolSpec }, at, tools) =>
    toolSpec === undefined
      ? []
      : [
          {
            type: "function",
            name: toolSpec.name,
            description: toolSpec.description,
            parameters: toolSpec.inputSchema.json,
            strict: toolSpec.strict,
            cache: cacheBreakpointOf(tools[at + 1]),
          },
        ],
  );
}

function readChoice({ toolConfig }: ConverseBody): ToolChoice | undefined {
  const { auto, any, tool } = toolConfig?.toolChoice ?? {};
  if (tool !== undefined) return { type: "tool", name: tool.name };
  if (any !== undefined) return { type: "required" };
  return auto === undefined ? undefined : { type: "auto" };
}

function readOutput({ outputConfig }: ConverseBody): CanonicalRequest["output"] {
  if (outputConfig === undefined) return undefined;
  const { schema, name, description } = outputConfig.textFormat.structure.jsonSchema;
  return { type: "json_schema", schema: JSON.parse(schema) as JsonObject, name, description };
}
