import { addFieldLoss, type Loss, takeNativeFields } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Effort } from "../../canonical/canonical-request.ts";
import { strictFlag } from "../../canonical/structured-output.ts";
import type { Target, WrittenRequest } from "../../canonical/wire-interfaces.ts";
import { isObject, type JsonObject } from "../../json-fields.ts";
import { writeEffort } from "../../openai-parameters.ts";
import { writeScalars } from "../../scalar-fields.ts";
import { writeTools } from "../items/write-responses-tools.ts";
import { INCLUDE_ENCRYPTED_REASONING, INCLUDE_LOGPROBS } from "./read-responses-request.ts";
import { RESPONSES_FIELDS } from "./responses-fields.ts";
import { writeItems } from "./write-responses-input-items.ts";

// Callers share the gateway's account, so no state that the provider stores for the account is used.
const STATEFUL_FIELDS: ReadonlySet<string> = new Set([
  "previous_response_id",
  "conversation",
  "background",
]);

export function writeRequest(request: CanonicalRequest, target: Target): WrittenRequest {
  const losses: Loss[] = [];
  const { items, replaysReasoning } = writeItems(request, target, losses);
  const native = writeNative(request, losses);
  const effort = writeEffort(request, target, losses);
  const { text, reasoning, include, ...extra } = native;
  const scalars = writeScalars(RESPONSES_FIELDS, { request, target, losses, effort });
  const body: JsonObject = {
    model: target.model,
    input: items,
    stream: request.stream,
    ...scalars,
    ...writeTools(request, target, losses),
    text: mergeObjects(mergeObjects(writeFormat(request, target, losses), scalars["text"]), text),
    reasoning: mergeObjects(writeReasoning(request, target, effort), reasoning),
    include: writeInclude(request, target, replaysReasoning, include),
    store: request.store === true,
    ...extra,
  };
  return { body, losses };
}

function writeNative(request: CanonicalRequest, losses: Loss[]): JsonObject {
  const out: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(
    takeNativeFields(request.native, "responses", "", losses) ?? {},
  )) {
    const [parent = "", ...rest] = key.split(".");
    if (STATEFUL_FIELDS.has(key))
      losses.push({
        path: key,
        reason: "The gateway does not use state that is stored at the provider.",
      });
    else if (rest.length === 0) out[key] = value;
    else out[parent] = { ...(isObject(out[parent]) ? out[parent] : {}), [rest.join(".")]: value };
  }
  return out;
}

function writeFormat(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const { output } = request;
  if (output?.type !== "json_schema") return output && { format: { type: output.type } };
  const { name = "structured_output", description, schema } = output;
  const strict = strictFlag(output, target, losses) ?? false;
  if (target.abilities?.jsonSchema !== false)
    return { format: { type: "json_schema", name, description, schema, strict } };
  addFieldLoss(losses, request, "output", "This model does not support JSON schema output.");
  return undefined;
}

function writeReasoning(
  request: CanonicalRequest,
  target: Target,
  effort: Effort | undefined,
): JsonObject | undefined {
  const { summary } = request.reasoning ?? {};
  const wantedSummary = summary === "none" ? undefined : summary;
  if (target.abilities?.reasoning === "none" || (effort ?? wantedSummary) === undefined)
    return undefined;
  return { effort, summary: wantedSummary };
}

// A model that does not reason rejects a request for encrypted reasoning.
function writeInclude(
  request: CanonicalRequest,
  target: Target,
  replaysReasoning: boolean,
  include: unknown,
): readonly unknown[] | undefined {
  const { reasoning } = target.abilities ?? {};
  const reasons =
    reasoning !== "none" &&
    (reasoning !== undefined || request.reasoning !== undefined || replaysReasoning);
  const list: unknown[] = [];
  if (reasons) list.push(INCLUDE_ENCRYPTED_REASONING);
  if (request.logprobs === true) list.push(INCLUDE_LOGPROBS);
  if (Array.isArray(include)) list.push(...(include as readonly unknown[])); // Array.isArray gives any[].
  return list.length > 0 ? list : undefined;
}

function mergeObjects(own: JsonObject | undefined, extra: unknown): JsonObject | undefined {
  return isObject(extra) ? { ...own, ...extra } : own;
}
