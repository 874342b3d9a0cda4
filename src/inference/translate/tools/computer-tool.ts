// Claude 5.5 takes only its computer toolset at Anthropic and Google. The earlier tool becomes a function with the published
// schema, so that calls and results keep their form.
// Source: platform.claude.com/docs/en/agents-and-tools/tool-use/computer-use-tool, read on 2026-11-23.

import { computerToolAsFunction } from "@postern/wires";
import { isObject, type JsonObject } from "../../../base/json.ts";
import type { Model } from "../../../models/catalog.ts";
import { abilitiesOf } from "../abilities.ts";
import type { AdaptedFields } from "../rewrite-request.ts";

/** Undefined if the model takes the tools as they are. */
export function adaptComputerTool({ tools }: JsonObject, model: Model): AdaptedFields | undefined {
  if (!Array.isArray(tools) || abilitiesOf(model).computerTool !== false) return undefined;
  const dropped: string[] = [];
  const sent = tools.map((tool: unknown, index) => {
    const written = isObject(tool) ? computerToolAsFunction(tool) : undefined;
    if (written !== undefined) dropped.push(`tools[${index}].type`);
    return written ?? tool;
  });
  return dropped.length === 0 ? undefined : { members: { tools: JSON.stringify(sent) }, dropped };
}
