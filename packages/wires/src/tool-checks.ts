// Checks of a request's tools that several wires share.

import {
  addFieldLoss,
  addHintLoss,
  addLoss,
  addToleratedLoss,
  type Loss,
  nativeToolLossReason,
} from "./canonical/canonical-losses.ts";
import type { ToolCallPart } from "./canonical/canonical-parts.ts";
import type {
  CanonicalRequest,
  FunctionTool,
  Tool,
  ToolChoice,
} from "./canonical/canonical-request.ts";
import { CLAUDE_SCHEMA, reduceSchema } from "./canonical/reduced-schema.ts";
import { isStrictCompatible, outputToolChoice } from "./canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "./canonical/wire-interfaces.ts";
import { type JsonObject, parseObject } from "./json-fields.ts";

const CUSTOM_TOOL_REASON = "This provider does not support custom tools with free-form input.";

export interface CheckedTool {
  readonly tool: FunctionTool;
  readonly path: string;
  /** `tool.strict`, if the model supports strict tools. */
  readonly strict: boolean | undefined;
}

/** The function tool, checked; undefined (a loss) for a custom tool or another wire's server tool. */
export function checkFunctionTool(
  tool: Tool,
  target: Target,
  losses: Loss[],
): CheckedTool | undefined {
  const path = tool.path ?? `tools.${tool.name}`;
  if (tool.type !== "function") {
    const reason = tool.type === "custom" ? CUSTOM_TOOL_REASON : nativeToolLossReason(tool);
    return addLoss(losses, path, reason);
  }
  const supportsStrict = target.abilities?.strictTools !== false;
  if (tool.strict === true && !supportsStrict)
    addHintLoss(losses, `${path}.strict`, "This model does not support strict tools.");
  return { tool, path, strict: supportsStrict ? tool.strict : undefined };
}

const OPEN_OBJECT: JsonObject = { type: "object", properties: {} };

/** Claude's strict tools take the same part of JSON Schema as its output; a tool with another schema is not strict. */
export function writeClaudeSchema(
  { tool, path, strict }: CheckedTool,
  losses: Loss[],
): { readonly schema: JsonObject; readonly strict: boolean | undefined } {
  const schema = { ...(tool.parameters ?? OPEN_OBJECT), type: "object" };
  if (strict !== true) return { schema, strict };
  const reduced = reduceSchema(schema, CLAUDE_SCHEMA);
  if (reduced === undefined) {
    const reason =
      "This provider's strict tools cannot be recursive or have objects with arbitrary property names.";
    addHintLoss(losses, `${path}.strict`, reason);
    return { schema, strict: undefined };
  }
  if (reduced.isChanged) {
    const reason =
      "This provider's strict tools support only a part of JSON Schema; other keywords are in the description.";
    addToleratedLoss(losses, `${path}.schema`, reason);
  }
  return { schema: reduced.schema, strict };
}

/** The `strict` flag for OpenAI, which rejects it if the schema has an open object or an optional property. */
export function writeOpenAiStrict(
  { strict, parameters = OPEN_OBJECT }: FunctionTool,
  path: string,
  { abilities }: Target,
  losses: Loss[],
): boolean | undefined {
  if (strict !== true) return strict;
  if (abilities?.strictTools === false)
    return addHintLoss(losses, `${path}.strict`, "This model does not support strict tools.");
  if (abilities?.openaiFields === false || isStrictCompatible(parameters)) return true;
  const reason =
    "This provider's strict tools need objects that require all of their properties and allow no others.";
  return addHintLoss(losses, `${path}.strict`, reason);
}

/** The arguments of a call; undefined (a loss) for a custom tool or if they are not a JSON object. */
export function checkToolInput(
  call: ToolCallPart,
  path: string,
  losses: Loss[],
): JsonObject | undefined {
  if (call.custom === true) return addLoss(losses, path, CUSTOM_TOOL_REASON);
  const input = parseObject(call.arguments);
  return input ?? addLoss(losses, path, "Tool call arguments must be a JSON object.");
}

/** The caller's choice, or the one that schema emulation needs. */
export function effectiveToolChoice(
  request: CanonicalRequest,
  emulation: SchemaEmulation | undefined,
): ToolChoice | undefined {
  return emulation === undefined ? request.toolChoice : outputToolChoice(request, emulation);
}

/** The tools that may be called: all, or those that the caller's `allowed` choice names. */
export function allowedTools({ tools = [], toolChoice }: CanonicalRequest): readonly Tool[] {
  if (toolChoice?.type !== "allowed") return tools;
  const allowed = new Set(toolChoice.names);
  return tools.filter((tool) => allowed.has(tool.name));
}

/** Whether the model must call a tool; some models cannot reason then. */
export function requiresToolCall(choice: ToolChoice | undefined): boolean {
  return (
    choice?.type === "required" ||
    choice?.type === "tool" ||
    (choice?.type === "allowed" && choice.mode === "required")
  );
}

export function addNativeChoiceLoss(losses: Loss[], request: CanonicalRequest): void {
  const reason = "It selects a server tool that this provider does not have.";
  addFieldLoss(losses, request, "toolChoice", reason);
}
