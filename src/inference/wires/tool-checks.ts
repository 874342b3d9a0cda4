// Checks of a request's tools that several wires share.
import { type JsonObject, parseObject } from "../../base/json.ts";
import {
  addFieldLoss,
  addHintLoss,
  addLoss,
  type Loss,
  nativeToolLossReason,
} from "../canonical/loss.ts";
import type { ToolCallPart } from "../canonical/parts.ts";
import type { CanonicalRequest, FunctionTool, Tool, ToolChoice } from "../canonical/request.ts";
import { outputToolChoice } from "../canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "../canonical/wire.ts";

const CUSTOM_TOOL_REASON = "This provider does not support custom tools with free-form input.";

export interface ToolNameRule {
  readonly pattern: RegExp;
  /** The loss reason if a name does not match. */
  readonly reason: string;
}

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
  nameRule?: ToolNameRule,
): CheckedTool | undefined {
  const path = tool.path ?? `tools.${tool.name}`;
  if (tool.type !== "function") {
    const reason = tool.type === "custom" ? CUSTOM_TOOL_REASON : nativeToolLossReason(tool);
    return addLoss(losses, path, reason);
  }
  if (nameRule !== undefined && !nameRule.pattern.test(tool.name))
    losses.push({ path: `${path}.name`, reason: nameRule.reason });
  const supportsStrict = target.abilities?.strictTools !== false;
  if (tool.strict === true && !supportsStrict)
    addHintLoss(losses, `${path}.strict`, "This model does not support strict tools.");
  return { tool, path, strict: supportsStrict ? tool.strict : undefined };
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
