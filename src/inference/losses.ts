// What becomes of the things that a provider cannot be told: refused with the path in the caller's own words, or left out
// and listed, where the caller allows that or a rule says so.

import { Fault, invalid } from "../base/fault.ts";
import { type Ask, isObject, type Json } from "./ask.ts";
import type { CanonicalRequest, Loss } from "./canonical.ts";

/** The paths that were left out; throws where something may not be. */
export function droppedOf(
  ask: Pick<Ask, "json">,
  request: CanonicalRequest,
  losses: readonly Loss[],
  model: string,
): readonly string[] {
  const refused = losses.filter(isRefused);
  const mayDrop = isLossy(ask.json);
  const [loss] = mayDrop ? refused.filter((one) => one.always === true) : refused;
  if (loss !== undefined) throw refusal(loss, model);
  const emptied = mayDrop ? emptiedTurn(request, refused) : undefined;
  if (emptied !== undefined) throw refusal({ ...emptied, always: true }, model);
  return losses.map((one) => one.path);
}

export function isRefused(loss: Loss): boolean {
  return loss.byRule !== true;
}

/** By this Anthropic's SDKs know that a conversation must be sent whole, and do so: their tool runners begin every one as a thread. */
export const NO_THREADS = {
  details: { error_code: "thread_unsupported_request", unsupported: ["thread"] },
};

function refusal({ path, why, always }: Loss, model: string): Fault {
  const way =
    always === true
      ? "Change it, or use another model."
      : 'Leave it out, use another model, or set "postern": {"lossy": true} to have it dropped.';
  const message = `${path} cannot be passed on to ${model}: ${why} ${way}`;
  return path === "thread"
    ? new Fault("invalid_request", message, { message, param: path, fields: NO_THREADS })
    : invalid(path, message);
}

// A turn of which nothing is left cannot be sent, and without it the conversation would be another.
function emptiedTurn({ turns }: CanonicalRequest, losses: readonly Loss[]): Loss | undefined {
  const lost = new Map(losses.map((loss) => [loss.path, loss]));
  const emptied = turns.find(
    ({ parts, path }) =>
      parts.length > 0 && parts.every((part) => lost.has(part.path ?? path ?? "")),
  );
  return emptied === undefined ? undefined : lost.get(emptied.parts[0]?.path ?? emptied.path ?? "");
}

function isLossy(json: Json): boolean {
  const own = json["postern"];
  if (own === undefined || own === null) return false;
  if (!isObject(own))
    throw invalid("postern", 'postern must be an object, such as {"lossy": true}.');
  const lossy = own["lossy"];
  if (lossy !== undefined && typeof lossy !== "boolean")
    throw invalid("postern.lossy", "postern.lossy must be true or false.");
  return lossy === true;
}
