import {
  addToleratedLoss,
  fieldPath,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest } from "../../canonical/canonical-request.ts";
import { REASONING_DIALECT_FIELDS } from "../../canonical/native-hints.ts";
import {
  addSchemaInstruction,
  emulateByTool,
  strictFlag,
} from "../../canonical/structured-output.ts";
import type { Target, WrittenRequest, SchemaEmulation } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { writeEffort } from "../../openai-parameters.ts";
import { writeScalars } from "../../scalar-fields.ts";
import { CHAT_FIELDS } from "./chat-fields.ts";
import { writeTools } from "./write-chat-tools.ts";
import { writeTurns } from "./write-chat-turns.ts";

export function writeRequest(request: CanonicalRequest, target: Target): WrittenRequest {
  const abilities = target.abilities ?? {};
  const losses: Loss[] = [];
  const stream = request.stream === true;
  const output = writeResponseFormat(request, target, losses);
  const effort = writeEffort(request, target, losses);
  const body: JsonObject = {
    model: target.model,
    messages: writeTurns(output.request, target, losses),
    stream: request.stream,
    stream_options:
      stream && abilities.streamOptions !== false ? { include_usage: true } : undefined,
    [abilities.maxTokensField ?? "max_completion_tokens"]: request.maxOutputTokens,
    ...writeTools(request, target, output.emulation, losses),
    response_format: output.format,
    reasoning_effort: hasDialectReasoning(request) ? undefined : effort,
    ...writeScalars(CHAT_FIELDS, { request, target, losses, effort }),
    ...takeNativeFields(request.native, "chat", "", losses),
  };
  addReasoningLosses(request, losses);
  return { body, losses, emulation: output.emulation };
}

/** The caller's own fields for reasoning, which this wire sends as they are. */
function hasDialectReasoning({ native }: CanonicalRequest): boolean {
  return (
    native?.wire === "chat" &&
    Object.keys(native.fields).some((name) => REASONING_DIALECT_FIELDS.has(name))
  );
}

function addReasoningLosses(request: CanonicalRequest, losses: Loss[]): void {
  const { effort, budgetTokens, mode, summary, isDefaultSummary } = request.reasoning ?? {};
  const path = fieldPath(request, "reasoning");
  if (summary !== undefined && isDefaultSummary !== true)
    addToleratedLoss(losses, path, "This API has no parameter for reasoning summaries.");
  const hasEffort = effort !== undefined || budgetTokens !== undefined || mode === "off";
  if (mode !== undefined && !hasEffort)
    addToleratedLoss(losses, path, "Without an effort, the model's default applies.");
}

interface WrittenResponseFormat {
  readonly format?: JsonObject | undefined;
  readonly emulation?: SchemaEmulation | undefined;
  /** The request, with instructions about its output if the model needs them. */
  readonly request: CanonicalRequest;
}

function writeResponseFormat(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenResponseFormat {
  const { output } = request;
  const { abilities = {} } = target;
  if (output === undefined) return { request };
  if (output.type !== "json_schema") return { request, format: { type: output.type } };
  if (abilities.jsonSchema !== false) {
    const { name = "structured_output", description, schema } = output;
    const strict = strictFlag(output, target, losses);
    const format = { name, description, schema, strict };
    return { request, format: { type: "json_schema", json_schema: format } };
  }
  return abilities.schemaEmulation === "instructions"
    ? { request: addSchemaInstruction(request, output, losses), format: { type: "json_object" } }
    : { request, emulation: emulateByTool(request, output, losses) };
}
