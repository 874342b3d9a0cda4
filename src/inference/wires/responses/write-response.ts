// The Response object around the output: what was asked is repeated in it, in full, as clients of this API expect.
import type { CanonicalReply, CanonicalRequest, Finish, JsonObject, Turn, UsageReport } from "../../canonical.ts";
import type { ReplyWriteContext } from "../../canonical-wire.ts";
import { writeFinish } from "./map-finish-reason.ts";
import type { WrittenFinish } from "./map-finish-reason.ts";
import { writeUsage } from "./map-usage.ts";
import { flatChoice, flatTool } from "./write-tools.ts";

export type ReplyHead = Pick<CanonicalReply, "id" | "model" | "createdSeconds" | "serviceTier">;

export interface ResponseEnd {
  readonly finish: Finish;
  readonly refusal: boolean;
  readonly usage: UsageReport | undefined;
}

/** All but `output`. Without an end it is a response in progress. */
export function writeResponse(
  head: ReplyHead | undefined,
  context: ReplyWriteContext,
  end: ResponseEnd | undefined,
): JsonObject {
  const { request } = context;
  const createdAt = head?.createdSeconds ?? context.createdSeconds;
  const finish = end && writeFinish(end.finish, { refusal: end.refusal });
  const done = finish?.status === "completed";
  return {
    id: head?.id ?? context.id,
    object: "response",
    created_at: createdAt,
    completed_at: done ? Math.max(createdAt, context.createdSeconds) : null,
    ...(finish ?? IN_PROGRESS),
    model: head?.model ?? context.model,
    ...echo(request),
    service_tier: head?.serviceTier ?? request.serviceTier ?? "default",
    usage: end?.usage === undefined ? null : writeUsage(end.usage),
  };
}

const IN_PROGRESS = {
  status: "in_progress",
  incomplete_details: null,
  error: null,
} as const satisfies Omit<WrittenFinish, "status"> & { status: string };

function echo(request: CanonicalRequest): JsonObject {
  const { reasoning, output, native } = request;
  const own = native?.wire === "responses" ? native.fields : undefined;
  return {
    instructions: instructionsOf(request.turns),
    tools: (request.tools ?? []).map((tool) => {
      const flat = flatTool(tool);
      if (tool.type !== "function") return flat;
      return { ...flat, description: tool.description ?? null, strict: tool.strict ?? false };
    }),
    tool_choice: request.toolChoice === undefined ? "auto" : flatChoice(request.toolChoice, request),
    parallel_tool_calls: request.parallelToolCalls ?? true,
    max_tool_calls: own?.["max_tool_calls"] ?? null,
    truncation: own?.["truncation"] ?? "disabled",
    text: {
      format:
        output?.type === "json_schema"
          ? {
              type: "json_schema",
              name: output.name ?? "structured_output",
              description: output.description ?? null,
              schema: output.schema,
              strict: output.strict ?? false,
            }
          : { type: output?.type ?? "text" },
      verbosity: request.verbosity ?? "medium",
    },
    reasoning: {
      effort: reasoning?.effort ?? null,
      summary: reasoning?.summary === "none" ? null : (reasoning?.summary ?? null),
    },
    temperature: request.temperature ?? 1,
    top_p: request.topP ?? 1,
    top_logprobs: request.topLogprobs ?? 0,
    presence_penalty: request.presencePenalty ?? 0,
    frequency_penalty: request.frequencyPenalty ?? 0,
    max_output_tokens: request.maxOutputTokens ?? null,
    metadata: request.metadata ?? {},
    safety_identifier: request.safetyIdentifier ?? null,
    prompt_cache_key: request.cacheKey ?? null,
    previous_response_id: own?.["previous_response_id"] ?? null,
    background: own?.["background"] === true,
    store: request.store === true,
    user: request.user ?? null,
  };
}

function instructionsOf(turns: readonly Turn[]): string | null {
  const turn = turns.find((one) => one.path === "instructions");
  const part = turn?.parts[0];
  return part?.type === "text" ? part.text : null;
}
