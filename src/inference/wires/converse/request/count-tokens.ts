// The provider's own count of a prompt. Some models have none: the provider answers 400.
import type { CanonicalRequest } from "../../../canonical/request.ts";
import { numberIn, objectIn } from "../../../../base/json.ts";
import type { Target, WrittenRequest } from "../../../canonical/wire.ts";
import { operationPath } from "./operation-path.ts";
import { writeRequest } from "./write-request.ts";

export function writeCountRequest(request: CanonicalRequest, target: Target): WrittenRequest {
  const { body, losses } = writeRequest(request, target);
  const { messages, system, toolConfig, additionalModelRequestFields } = body;
  return {
    body: { input: { converse: { messages, system, toolConfig, additionalModelRequestFields } } },
    losses,
    path: operationPath(target.model, "count-tokens"),
  };
}

export function readTokenCount(body: unknown): number | undefined {
  return numberIn(objectIn(body)?.["inputTokens"]);
}
