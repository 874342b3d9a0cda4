// OpenAI's tool that generates images is a tool of the Responses API. A chat asks for it by the same definition, and has the
// images in its message.

import { addLoss } from "../canonical/canonical-losses.ts";
import type { ImagePart, Part } from "../canonical/canonical-parts.ts";
import type { CanonicalRequest, Tool } from "../canonical/canonical-request.ts";
import { IMAGE_TOOL } from "../canonical/tools/server-tool.ts";
import { stringIn } from "../json-fields.ts";
import type { ChangedRequest, StepContext } from "./translation-step.ts";

export function withImageTool(
  request: CanonicalRequest,
  { caller, provider, losses }: StepContext,
): ChangedRequest {
  const { tools } = request;
  if (tools?.some((tool) => isChatImageTool(tool)) !== true) return { request };
  if (caller === provider) {
    const reason = "This model generates images only on the Responses API.";
    for (const tool of tools.filter(isChatImageTool)) addLoss(losses, tool.path ?? "tools", reason);
    return { request };
  }
  const written = tools.map(asResponsesTool);
  return {
    request: { ...request, tools: written },
    createUndo: () => ({
      translatePart: (part) => {
        const image = imageOf(part);
        return image && [image];
      },
    }),
  };
}

function asResponsesTool(tool: Tool): Tool {
  return isChatImageTool(tool) ? { ...tool, wire: "responses" } : tool;
}

function isChatImageTool(tool: Tool): tool is Extract<Tool, { type: "native" }> {
  return tool.type === "native" && tool.wire === "chat" && tool.name === IMAGE_TOOL;
}

function imageOf(part: Part): ImagePart | undefined {
  if (part.type !== "native" || part.value["type"] !== `${IMAGE_TOOL}_call`) return undefined;
  const { result, output_format: format } = part.value;
  if (typeof result !== "string") return undefined;
  const mediaType = `image/${stringIn(format) ?? "png"}`;
  return { type: "image", source: { kind: "base64", mediaType, data: result } };
}
