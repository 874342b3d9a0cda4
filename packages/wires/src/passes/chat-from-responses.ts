// A body of the Responses API that a client sends to Chat Completions, as Cursor does in its agent mode: it expects chunks of
// Chat Completions back, so the body becomes one of that API.

import { INBOUND_WIRES, OUTBOUND_WIRES } from "../all-wires.ts";
import { invalid } from "../invalid-request.ts";
import { type JsonObject, stringIn } from "../json-fields.ts";

/** Read by the gateway or by Chat Completions, and unknown to the Responses API. */
const KEPT_FIELDS = ["stream_options", "models", "provider", "postern"] as const;

/** Undefined for a body that is no such body. Throws an `InvalidRequest` for one that Chat Completions cannot express. */
export function chatFromResponses(body: JsonObject): JsonObject | undefined {
  if (body["messages"] !== undefined || !Array.isArray(body["input"])) return undefined;
  const kept: Record<string, unknown> = {};
  const rest: Record<string, unknown> = { ...body };
  for (const name of KEPT_FIELDS) {
    if (rest[name] === undefined) continue;
    kept[name] = rest[name];
    delete rest[name];
  }
  const model = stringIn(body["model"]) ?? "";
  const request = INBOUND_WIRES.responses.readRequest({ ...rest, model });
  const target = { provider: "openai", model, abilities: { openaiFields: true } };
  const { body: written, losses } = OUTBOUND_WIRES.chat.writeRequest(request, target);
  const lost = losses.find(({ hint, tolerated }) => hint !== true && tolerated !== true);
  if (lost !== undefined)
    throw invalid(
      lost.path,
      `\`${lost.path}\` is not supported here. Send it to POST /v1/responses.`,
    );
  return { ...written, ...kept, model: body["model"] };
}
