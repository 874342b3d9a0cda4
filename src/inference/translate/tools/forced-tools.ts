// Claude 5.5 rejects a choice that forces a tool call. It is asked in its instructions instead, and the choice is listed as
// dropped: the provider does not enforce the call.

import {
  addHintLoss,
  fieldPath,
  type Loss,
  type CanonicalRequest,
  addInstruction,
  type Abilities,
  requiresToolCall,
} from "@postern/wires";
import { isObject, type JsonObject } from "../../../base/json.ts";
import type { Model } from "../../../models/catalog.ts";
import { abilitiesOf } from "../abilities.ts";
import type { AdaptedFields } from "../rewrite-request.ts";

const REASON = "This model cannot be forced to call a tool; its instructions ask for the call.";

export function askForTools(
  request: CanonicalRequest,
  { forcedTools }: Abilities,
  losses: Loss[],
): CanonicalRequest {
  const { toolChoice: choice } = request;
  if (forcedTools !== false || choice === undefined || !requiresToolCall(choice)) return request;
  addHintLoss(losses, fieldPath(request, "toolChoice"), REASON);
  const asked = addInstruction(request, instruction(choice.type === "tool" ? choice.name : ""));
  const toolChoice =
    choice.type === "allowed"
      ? ({ ...choice, mode: "auto" } as const)
      : ({ type: "auto" } as const);
  return { ...asked, toolChoice };
}

function instruction(name: string): string {
  return name === ""
    ? "Answer by calling at least one of the tools."
    : `Answer by calling the tool ${name}.`;
}

/** The same for a Messages request that is passed through; undefined if the model takes it as it is. */
export function adaptToolChoice(json: JsonObject, model: Model): AdaptedFields | undefined {
  const { tool_choice: choice, system } = json;
  if (!isObject(choice) || (choice["type"] !== "any" && choice["type"] !== "tool"))
    return undefined;
  if (abilitiesOf(model).forcedTools !== false) return undefined;
  const { name, ...rest } = choice;
  const text = instruction(typeof name === "string" ? name : "");
  const asked = Array.isArray(system)
    ? [...(system as readonly unknown[]), { type: "text", text }] // Array.isArray gives any[].
    : typeof system === "string" && system !== ""
      ? `${system}\n\n${text}`
      : text;
  const auto = { ...rest, type: "auto" };
  return {
    members: { tool_choice: JSON.stringify(auto), system: JSON.stringify(asked) },
    dropped: ["tool_choice"],
  };
}
