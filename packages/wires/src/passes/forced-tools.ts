// A choice that forces a tool call, for models that reject it: the instructions ask for the call instead. The provider does not
// enforce it, so the choice is listed as dropped.

import { fieldPath } from "../canonical/canonical-losses.ts";
import type { CanonicalRequest } from "../canonical/canonical-request.ts";
import { addInstruction } from "../canonical/structured-output.ts";
import { requiresToolCall } from "../tool-checks.ts";
import type { ChangedRequest, StepContext } from "./translation-step.ts";

export function askForTools(
  request: CanonicalRequest,
  { drop, abilities }: Pick<StepContext, "drop" | "abilities">,
): ChangedRequest {
  const { toolChoice: choice, reasoning } = request;
  if (choice === undefined || !requiresToolCall(choice)) return { request };
  if (abilities.forcedTools === "without_reasoning" && reasoning?.mode === "off")
    return { request };
  drop(fieldPath(request, "toolChoice"));
  const asked = addInstruction(request, callInstruction(choice.type === "tool" ? choice.name : ""));
  const toolChoice =
    choice.type === "allowed"
      ? ({ ...choice, mode: "auto" } as const)
      : ({ type: "auto" } as const);
  return { request: { ...asked, toolChoice } };
}

export function callInstruction(name: string): string {
  return name === ""
    ? "Answer by calling at least one of the tools."
    : `Answer by calling the tool ${name}.`;
}
