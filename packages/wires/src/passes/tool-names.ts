// Tool names that a provider does not take, such as `3d_render` at Gemini: it gets another name, and calls in its reply have the
// caller's name again.

import { addToleratedLoss } from "../canonical/canonical-losses.ts";
import type { Part } from "../canonical/canonical-parts.ts";
import type { CanonicalRequest, ToolChoice } from "../canonical/canonical-request.ts";
import { shortDigest } from "../canonical/tools/call-ids.ts";
import { WIRE_TRAITS } from "../wire-traits.ts";
import type { ChangedRequest, StepContext } from "./translation-step.ts";

/** Accepted by every provider. */
const NAME_MAX = 64;

export function withFittingNames(
  request: CanonicalRequest,
  { provider, losses }: Pick<StepContext, "provider" | "losses">,
): ChangedRequest {
  const { toolName: pattern } = WIRE_TRAITS[provider];
  if (pattern === undefined) return { request };
  const names = namesOf(request);
  const fitted = new Map<string, string>();
  for (const name of names)
    if (!pattern.test(name)) fitted.set(name, fittingName(name, pattern, names));
  if (fitted.size === 0) return { request };
  const originals = new Map([...fitted].map(([name, sent]) => [sent, name]));
  const nameOf = (name: string): string => fitted.get(name) ?? name;
  const tools = request.tools?.map((tool) => {
    const name = tool.type === "native" ? undefined : fitted.get(tool.name);
    if (name === undefined) return tool;
    addToleratedLoss(
      losses,
      `${tool.path ?? "tools"}.name`,
      `This provider does not take the name, so the model knows the tool as \`${name}\`; its calls have the name of the request.`,
    );
    return { ...tool, name };
  });
  const turns = request.turns.map((turn) => ({
    ...turn,
    parts: turn.parts.map((part): Part => {
      if (part.type === "tool_call") return { ...part, name: nameOf(part.name) };
      return part.type === "tool_result" && part.name !== undefined
        ? { ...part, name: nameOf(part.name) }
        : part;
    }),
  }));
  return {
    request: { ...request, turns, tools, toolChoice: choiceOf(request.toolChoice, nameOf) },
    createUndo: () => ({ originalName: (name) => originals.get(name) }),
  };
}

function namesOf({ tools = [], turns }: CanonicalRequest): ReadonlySet<string> {
  const names = new Set<string>();
  for (const tool of tools) if (tool.type !== "native") names.add(tool.name);
  for (const { parts } of turns)
    for (const part of parts) if (part.type === "tool_call") names.add(part.name);
  return names;
}

/** With `_` for what is not allowed. If that is no valid name or the name of another tool, a digest is before it. */
function fittingName(name: string, pattern: RegExp, names: ReadonlySet<string>): string {
  const plain = `${/^\d/.test(name) ? "_" : ""}${name.replaceAll(/[^A-Za-z0-9_-]/g, "_")}`;
  if (pattern.test(plain) && !names.has(plain)) return plain;
  const head = `_${shortDigest(name)}_`;
  return head + plain.slice(head.length - NAME_MAX);
}

function choiceOf(
  choice: ToolChoice | undefined,
  nameOf: (name: string) => string,
): ToolChoice | undefined {
  if (choice?.type === "tool") return { ...choice, name: nameOf(choice.name) };
  return choice?.type === "allowed" ? { ...choice, names: choice.names.map(nameOf) } : choice;
}
