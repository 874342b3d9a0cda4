// Losses are request fields that the provider's API cannot express. A hint is dropped and listed. Any other loss is rejected
// with a 400 that names the field in the caller's API, unless the caller allows it. A strict caller gets a 400 for every loss.

import { API_TRAITS, type Loss, type CanonicalRequest } from "@postern/wires";
import { Fault, invalid } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import { STRICT_HEADER } from "../request/call-options.ts";
import type { ParsedRequest } from "../request/parse-request.ts";

/** Whether the caller wants a 400 instead of a dropped field: by the header, or by OpenRouter's field for it. */
export function isStrict(json: JsonObject, headers: Pick<Headers, "get">): boolean {
  const { provider } = json;
  if (isObject(provider) && provider["require_parameters"] === true) return true;
  const value = headers.get(STRICT_HEADER)?.trim().toLowerCase();
  if (value === undefined || value === "false") return false;
  if (value === "true") return true;
  throw invalid(STRICT_HEADER, `The header \`${STRICT_HEADER}\` must be true or false.`);
}

/** For a strict caller, throws if anything was dropped. */
export function rejectDropped(dropped: readonly string[], model: string): void {
  const [path] = dropped;
  if (path === undefined) return;
  throw invalid(
    path,
    `\`${path}\` would be dropped with ${model}, which does not support it, and this request is strict. Remove it, use another model, or drop it by leaving out \`${STRICT_HEADER}: true\` and \`provider.require_parameters\`.`,
  );
}

/** The paths by the names in the body that the caller sent. */
export function sentPaths(
  { api, json, sentJson = json }: Pick<ParsedRequest, "api" | "json" | "sentJson">,
  paths: readonly string[],
): readonly string[] {
  const { sentPath } = API_TRAITS[api];
  return sentPath === undefined || paths.length === 0
    ? paths
    : paths.map((path) => sentPath(sentJson, path));
}

/** The paths of the dropped fields. Throws on a loss that must not be dropped. */
export function droppedPaths(
  canDrop: boolean,
  request: CanonicalRequest,
  losses: readonly Loss[],
  model: string,
): readonly string[] {
  const rejected = losses.filter(isRejected);
  const [loss] = canDrop ? rejected.filter((one) => one.fatal === true) : rejected;
  if (loss !== undefined) throw lossFault(loss, model);
  const emptied = canDrop ? emptiedTurnLoss(request, rejected) : undefined;
  if (emptied !== undefined) throw lossFault({ ...emptied, fatal: true }, model);
  return losses.length < 2
    ? losses.map((one) => one.path)
    : [...new Set(losses.map((one) => one.path))];
}

export function isRejected(loss: Loss): boolean {
  return loss.tolerated !== true && loss.hint !== true;
}

/** Whether another wire of the provider is preferred to this loss. */
export function isLossOfRequest(loss: Loss): boolean {
  return loss.tolerated !== true;
}

/** Anthropic's SDKs start every tool-runner conversation as a thread; on this error they resend it in full. */
export const THREADS_UNSUPPORTED = {
  details: { error_code: "thread_unsupported_request", unsupported: ["thread"] },
};

function lossFault({ path, reason, fatal }: Loss, model: string): Fault {
  const hint =
    fatal === true
      ? "Change it or use another model."
      : 'Remove it, use another model, or set `"postern": {"lossy": true}` to drop it.';
  const message = `\`${path}\` is not supported with ${model}. ${reason} ${hint}`;
  return path === "thread"
    ? new Fault("invalid_request", message, { message, param: path, fields: THREADS_UNSUPPORTED })
    : invalid(path, message);
}

// A turn that loses all of its parts cannot be sent, and dropping the turn would change the conversation.
function emptiedTurnLoss({ turns }: CanonicalRequest, losses: readonly Loss[]): Loss | undefined {
  const lossByPath = new Map(losses.map((loss) => [loss.path, loss]));
  const emptied = turns.find(
    ({ parts, path }) =>
      parts.length > 0 && parts.every((part) => lossByPath.has(part.path ?? path ?? "")),
  );
  return emptied === undefined
    ? undefined
    : lossByPath.get(emptied.parts[0]?.path ?? emptied.path ?? "");
}
