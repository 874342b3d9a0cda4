// The provider's own count of a prompt.
import type { CanonicalRequest } from "../../../canonical/request.ts";
import { type JsonObject, numberIn, objectIn } from "../../../../base/json.ts";
import type { Target, WrittenRequest } from "../../../canonical/wire.ts";
import { operationPath } from "./operation-path.ts";
import { writeRequest } from "./write-request.ts";

/** The Gemini API takes the request whole, in a field; Vertex AI takes its parts. */
export type CountEndpoint = "gemini-api" | "vertex";

export function writeCountRequest(
  request: CanonicalRequest,
  target: Target,
  form: CountEndpoint,
): WrittenRequest {
  const { body, losses } = writeRequest(request, target);
  const { contents, systemInstruction, tools, generationConfig } = body;
  const model = target.model.includes("/") ? target.model : `models/${target.model}`;
  const counted: JsonObject =
    form === "gemini-api"
      ? { generateContentRequest: { model, ...body } }
      : { contents, systemInstruction, tools, generationConfig };
  return { body: counted, losses, path: operationPath(target.model, "countTokens") };
}

export function readTokenCount(body: unknown): number | undefined {
  return numberIn(objectIn(body)?.["totalTokens"]);
}
