// What becomes of the things that a provider cannot be told: refused with the path in the caller's own words, or left out
// and listed, where the caller allows that or a rule says so.

import { Fault, invalid } from "../../base/fault.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { CanonicalRequest } from "../canonical/request.ts";
import type { Loss } from "../canonical/loss.ts";

/** The paths that were left out; throws where something may not be. */
export function droppedPaths(
  ask: Pick<ParsedRequest, "json">,
  request: CanonicalRequest,
  losses: readonly Loss[],
  model: string,
): readonly string[] {
  const rejected = losses.filter(isRejected);
  const canDrop = allowsLoss(ask.json);
  const [loss] = canDrop ? rejected.filter((one) => one.fatal === true) : rejected;
  if (loss !== undefined) throw lossFault(loss, model);
  const emptied = canDrop ? emptiedTurnLoss(request, rejected) : undefined;
  if (emptied !== undefined) throw lossFault({ ...emptied, fatal: true }, model);
  return losses.map((one) => one.path);
}

export function isRejected(loss: Loss): boolean {
  return loss.tolerated !== true;
}

/** By this Anthropic's SDKs know that a conversation must be sent whole, and do so: their tool runners begin every one as a thread. */
export const THREADS_UNSUPPORTED = {
  details: { error_code: "thread_unsupported_request", unsupported: ["thread"] },
};

function lossFault({ path, reason, fatal }: Loss, model: string): Fault {
  const hint =
    fatal === true
      ? "Change it, or use another model."
      : 'Leave it out, use another model, or set "postern": {"lossy": true} to have it dropped.';
  const message = `${path} cannot be passed on to ${model}: ${reason} ${hint}`;
  return path === "thread"
    ? new Fault("invalid_request", message, { message, param: path, fields: THREADS_UNSUPPORTED })
    : invalid(path, message);
}

// A turn of which nothing is left cannot be sent, and without it the conversation would be another.
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

function allowsLoss(json: JsonObject): boolean {
  const options = json["postern"];
  if (options === undefined || options === null) return false;
  if (!isObject(options))
    throw invalid("postern", 'postern must be an object, such as {"lossy": true}.');
  const lossy = options["lossy"];
  if (lossy !== undefined && typeof lossy !== "boolean")
    throw invalid("postern.lossy", "postern.lossy must be true or false.");
  return lossy === true;
}
