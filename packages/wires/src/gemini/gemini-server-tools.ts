// Adds a tool that Google runs, if Gemini can combine it with the rest of the request.

import { addFieldLoss, addLoss, type Loss } from "../canonical/canonical-losses.ts";
import type { CanonicalRequest, NativeTool } from "../canonical/canonical-request.ts";
import type { ServerToolDefinition } from "../canonical/tools/server-tool.ts";
import type { Target } from "../canonical/wire-interfaces.ts";
import { type JsonObject, objectIn } from "../json-fields.ts";
import { otherToolFields, withoutTool, withTool } from "../server-tool-fields.ts";
import { isGenerationThreeOrLater } from "./request/gemini-model-generation.ts";

interface AddedTool {
  readonly tool: ServerToolDefinition;
  /** The tool's name in errors. */
  readonly title: string;
  readonly target: Target;
}

export function withServerTool(
  request: CanonicalRequest,
  { tool: { path, isRequired }, title, target }: AddedTool,
  losses: Loss[],
  value: JsonObject,
): CanonicalRequest {
  if (isRequired === true)
    addFieldLoss(losses, request, "toolChoice", `This provider cannot require ${title}.`);
  // Gemini 3 can combine them if the client sends the provider's own parts back, which other APIs do not have.
  const hasFunctions = request.tools?.some((one) => one.type !== "native" || one.wire !== "gemini");
  const isJson = request.output !== undefined && request.output.type !== "text";
  if (hasFunctions === true)
    addLoss(losses, path, `This provider does not combine ${title} with other tools.`);
  else if (isJson && !isGenerationThreeOrLater(target))
    addLoss(losses, path, `This model does not combine ${title} with JSON output.`);
  else return withTool(request, "gemini", Object.keys(value).join(), value);
  return request;
}

interface FoundTool {
  readonly tool: ServerToolDefinition;
  readonly rest: CanonicalRequest;
}

/** A tool of this name that Google would run. All of its settings are losses: other providers have none of them. */
export function findServerTool(request: CanonicalRequest, names: RegExp): FoundTool | undefined {
  const found = request.tools?.find(
    (one): one is NativeTool =>
      one.type === "native" && one.wire === "gemini" && names.test(one.name),
  );
  if (found === undefined) return undefined;
  const { path = "tools", name, value } = found;
  const losses = otherToolFields(objectIn(value[name]), path, "gemini");
  return { tool: { path, losses }, rest: withoutTool(request, found) };
}
