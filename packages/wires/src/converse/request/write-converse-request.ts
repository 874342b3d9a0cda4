import { type Loss, takeNativeFields } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest } from "../../canonical/canonical-request.ts";
import { addJsonInstruction } from "../../canonical/structured-output.ts";
import type { Target, WrittenRequest } from "../../canonical/wire-interfaces.ts";
import { writeClaudeOutput } from "../../claude-schema.ts";
import { type JsonObject, objectIn, omitIfEmpty } from "../../json-fields.ts";
import { writeScalars } from "../../scalar-fields.ts";
import { effectiveToolChoice, requiresToolCall } from "../../tool-checks.ts";
import { CONVERSE_FIELDS } from "./converse-fields.ts";
import { familyOf } from "./converse-model-family.ts";
import { writeThinking } from "./write-converse-thinking.ts";
import { writeTools } from "./write-converse-tools.ts";
import { writeTurns } from "./write-converse-turns.ts";

export function writeRequest(original: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  const adapted =
    original.output?.type === "json_object" ? addJsonInstruction(original, losses) : original;
  const { request, schema, emulation } = writeClaudeOutput(adapted, target, losses);
  const native: JsonObject = takeNativeFields(request.native, "converse", "", losses) ?? {};
  const maxTokens = request.maxOutputTokens ?? target.maxOutputTokens;
  const isToolRequired = requiresToolCall(effectiveToolChoice(request, emulation));
  const thinking = writeThinking(request, target, { maxTokens, isToolRequired }, losses);
  const thinks = isThinkingEnabled(thinking);
  const scalars = writeScalars(CONVERSE_FIELDS, { request, target, losses, thinks });
  const tools = writeTools(request, target, emulation, losses);
  const additional = native["additionalModelRequestFields"];
  const body: JsonObject = {
    ...native,
    ...scalars,
    ...writeTurns(request, target, losses),
    inferenceConfig: omitIfEmpty({ maxTokens, ...objectIn(scalars["inferenceConfig"]) }),
    toolConfig: tools.toolConfig,
    additionalModelRequestFields: omitIfEmpty({
      ...(typeof additional === "object" ? additional : undefined),
      ...thinking,
      ...objectIn(scalars["additionalModelRequestFields"]),
      ...tools.additionalFields,
    }),
    additionalModelResponseFieldPaths:
      request.stop !== undefined && familyOf(target) === "claude" ? ["/stop_sequence"] : undefined,
    outputConfig: schema === undefined ? undefined : writeOutput(request, schema),
  };
  const operation = request.stream === true ? "converse-stream" : "converse";
  return { body, losses, emulation, path: operationPath(target.model, operation) };
}

function isThinkingEnabled(fields: JsonObject | undefined): boolean {
  const thinking = fields?.["thinking"];
  return (
    typeof thinking === "object" &&
    thinking !== null &&
    "type" in thinking &&
    thinking.type !== "disabled"
  );
}

function writeOutput({ output }: CanonicalRequest, schema: JsonObject): JsonObject | undefined {
  if (output?.type !== "json_schema") return undefined;
  const { name, description } = output;
  const jsonSchema: JsonObject = { schema: JSON.stringify(schema), name, description };
  return { textFormat: { type: "json_schema", structure: { jsonSchema } } };
}

type ConverseOperation = "converse" | "converse-stream";

/** The path below the provider's base URL. The model may be an ARN with slashes and colons. */
function operationPath(model: string, operation: ConverseOperation): string {
  return `/model/${encodeURIComponent(model)}/${operation}`;
}
