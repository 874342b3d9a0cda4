// The Response object without its output. Clients of this API expect the request's fields to be repeated in it.

import type { ResponseUsage } from "openai/resources/responses/responses";
import type { CanonicalReply, Finish, UsageReport } from "../../canonical/canonical-reply.ts";
import type { CanonicalRequest, Tool, Turn } from "../../canonical/canonical-request.ts";
import type { ReplyWriteContext } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { openaiServiceTier } from "../../openai-tiers.ts";
import { groupByNamespace } from "../items/responses-namespaces.ts";
import { listedTools, toolChoiceObject, toolObject } from "../items/write-responses-tools.ts";
import { RESPONSES_FIELDS } from "../request/responses-fields.ts";
import { writeFinish, type WrittenFinish } from "./map-responses-finish-reason.ts";

export type ReplyHead = Pick<CanonicalReply, "id" | "model" | "createdSeconds" | "serviceTier">;

export interface ResponseOutcome {
  readonly finish: Finish;
  readonly hasRefusal: boolean;
  readonly usage: UsageReport | undefined;
}

/** Everything but `output`. Without `end` the response is in progress. */
export function writeResponse(
  head: ReplyHead | undefined,
  context: ReplyWriteContext,
  end: ResponseOutcome | undefined,
): JsonObject {
  const { request } = context;
  const createdAt = head?.createdSeconds ?? context.createdSeconds;
  const finish = end && writeFinish(end.finish, { hasRefusal: end.hasRefusal });
  const done = finish?.status === "completed";
  return {
    id: head?.id ?? context.id,
    object: "response",
    created_at: createdAt,
    completed_at: done ? Math.max(createdAt, context.createdSeconds) : null,
    ...(finish ?? IN_PROGRESS),
    model: head?.model ?? context.model,
    ...echoedRequestFields(request),
    service_tier: openaiServiceTier(head?.serviceTier ?? request.serviceTier) ?? "default",
    usage: end?.usage === undefined ? null : writeUsage(end.usage),
  };
}

const IN_PROGRESS = {
  status: "in_progress",
  incomplete_details: null,
  error: null,
} as const satisfies Omit<WrittenFinish, "status"> & { status: string };

/** The fields that the reply repeats, with the defaults of this API. */
const DEFAULTS: JsonObject = {
  instructions: null,
  tool_choice: "auto",
  parallel_tool_calls: true,
  max_tool_calls: null,
  truncation: "disabled",
  temperature: 1,
  top_p: 1,
  top_logprobs: 0,
  presence_penalty: 0,
  frequency_penalty: 0,
  max_output_tokens: null,
  metadata: {},
  safety_identifier: null,
  prompt_cache_key: null,
  previous_response_id: null,
  background: false,
  store: false,
  user: undefined, // It has none.
};
const REPEATED = RESPONSES_FIELDS.flatMap(({ name = "", field }) =>
  name in DEFAULTS ? [[name, field] as const] : [],
);
const REPEATED_NATIVE = ["max_tool_calls", "truncation", "previous_response_id", "background"];

function echoedRequestFields(request: CanonicalRequest): JsonObject {
  const { toolChoice, reasoning, native } = request;
  const own = native?.wire === "responses" ? native.fields : {};
  const fields: Record<string, unknown> = {
    instructions: instructionsOf(request.turns),
    tool_choice: toolChoice && toolChoiceObject(toolChoice, request),
  };
  for (const [name, field] of REPEATED) fields[name] = request[field];
  for (const name of REPEATED_NATIVE) fields[name] = own[name];
  const summary = reasoning?.summary === "none" ? undefined : reasoning?.summary;
  return {
    ...withDefaults(fields, DEFAULTS),
    tools: groupByNamespace(listedTools(request.tools), echoTool),
    text: { format: echoFormat(request), verbosity: request.verbosity ?? "medium" },
    reasoning: withDefaults(
      { effort: reasoning?.effort, summary },
      { effort: null, summary: null },
    ),
  };
}

function withDefaults(fields: JsonObject, defaults: JsonObject): JsonObject {
  const all: Record<string, unknown> = { ...defaults };
  for (const key in fields) if (fields[key] !== undefined) all[key] = fields[key];
  return all;
}

function echoTool(tool: Tool): JsonObject {
  const flat = toolObject(tool);
  return tool.type === "function"
    ? withDefaults(flat, { description: null, parameters: null, strict: false })
    : flat;
}

function echoFormat({ output }: CanonicalRequest): JsonObject {
  if (output?.type !== "json_schema") return { type: output?.type ?? "text" };
  const { type, name = "structured_output", description = null, schema, strict = false } = output;
  return { type, name, description, schema, strict };
}

function instructionsOf(turns: readonly Turn[]): string | undefined {
  const turn = turns.find((one) => one.path === "instructions");
  const part = turn?.parts[0];
  return part?.type === "text" ? part.text : undefined;
}

/** In this API cached tokens are part of the input tokens, and reasoning tokens part of the output tokens. */
function writeUsage(report: UsageReport): JsonObject {
  const { tokens } = report.usage;
  const cached =
    (tokens.cache_read ?? 0) + (tokens.cache_read_audio ?? 0) + (tokens.cache_read_image ?? 0);
  const written = (tokens.cache_write_5m ?? 0) + (tokens.cache_write_1h ?? 0);
  const uncached = (tokens.input ?? 0) + (tokens.input_audio ?? 0) + (tokens.input_image ?? 0);
  const reasoning = tokens.reasoning ?? 0;
  const output = (tokens.output ?? 0) + (tokens.output_audio ?? 0) + (tokens.output_image ?? 0);
  const usage: ResponseUsage = {
    input_tokens: uncached + cached + written,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
    output_tokens: output + reasoning,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: uncached + cached + written + output + reasoning,
  };
  return { ...usage, ...report.extras };
}
