// Checks of a request's tools that several wires share.
import { type Loss, addFieldLoss, nativeToolLossReason } from "../canonical/loss.ts";
import type { CanonicalRequest, FunctionTool, Tool, ToolChoice } from "../canonical/request.ts";
import { outputToolChoice } from "../canonical/structured-output.ts";
import type { SchemaEmulation, Target } from "../canonical/wire.ts";

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
    const reason =
      tool.type === "custom"
        ? "This provider does not support custom tools with free-form input."
        : nativeToolLossReason(tool);
    losses.push({ path, reason });
    return undefined;
  }
  if (nameRule !== undefined && !nameRule.pattern.test(tool.name))
    losses.push({ path: `${path}.name`, reason: nameRule.reason });
  const supportsStrict = target.abilities?.strictTools !== false;
  if (tool.strict === true && !supportsStrict)
    losses.push({ path: `${path}.strict`, reason: "This model does not support strict tools." });
  return { tool, path, strict: supportsStrict ? tool.strict : undefined };
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
