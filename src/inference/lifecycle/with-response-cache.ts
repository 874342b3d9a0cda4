// The response cache, which a request or its key asks for: an identical request of the same workspace gets the stored reply, free of charge.
// It is an idempotent call whose key is a hash of the request, so a reply is stored in the transaction of its charge, encrypted
// with a key that the store does not have.

import { createHash } from "node:crypto";
import { API_TRAITS } from "@postern/wires";
import { canonicalText } from "../../base/canonical-json.ts";
import { Fault } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import { SECOND_MS } from "../../base/time.ts";
import { parseJsonBody } from "../../http/request/body.ts";
import type { IdempotentCall } from "../../http/request/idempotent-call.ts";
import {
  CACHE_HEADER,
  type CacheOption,
  LOSSY_HEADER,
  readCache,
  RECEIPT_HEADER,
  STRICT_HEADER,
} from "../request/call-options.ts";
import type { CallInput } from "./call.ts";
import { namesPreset } from "./expand-preset.ts";
import { storedResponse } from "./reply/idempotent-reply.ts";
import {
  claimReply,
  type ClaimedReply,
  type IdempotencyDeps,
  runClaimed,
} from "./with-idempotency.ts";

type CacheResult = "hit" | "miss" | "bypass";

/** How a request uses the cache; undefined if neither it nor its key asks for it. */
export function readCacheUse(input: CallInput, now: number): IdempotentCall | "bypass" | undefined {
  const most = input.caller.policy?.cacheSeconds;
  // A body that names no option needs no parsing here.
  const isNamed = input.headers.has(CACHE_HEADER) || input.text.includes('"cache"');
  if (most === undefined && !isNamed) return undefined;
  const json = parseJsonBody(input.text);
  if (!isObject(json)) return undefined;
  const option = readCache(json, input.headers, most);
  if (option === undefined) return undefined;
  if (!isCacheable(input, json, option)) return "bypass";
  return {
    accountId: input.caller.accountId,
    scope: "cache",
    key: keyOf(input, json),
    body: "",
    now,
    maxAgeMs: option.seconds * SECOND_MS,
  };
}

/** The reply of a request with tools may depend on what they do, and that of a stored one has an id of its own. */
function isCacheable(
  { api }: CallInput,
  json: JsonObject,
  { withTools, withStored }: CacheOption,
): boolean {
  const hasTools = Array.isArray(json["tools"]) && json["tools"].length > 0;
  const isStored = API_TRAITS[api].storesReplies && json["store"] !== false;
  // A preset can change.
  if (json["background"] === true || namesPreset({ text: String(json["model"]) })) return false;
  return (withTools || !hasTools) && (withStored || !isStored);
}

/** A double has 15 digits, so two longer integers can be the same number after parsing. */
const LONG_INTEGERS = /\d{16,}/g;

/** Keys with other restrictions do not share replies: one may not be allowed what the other is. */
function keyOf(
  { api, text, caller, headers, forwardedHeaders }: CallInput,
  json: JsonObject,
): string {
  const { postern, ...request } = json;
  const identity = {
    api,
    request,
    integers: text.match(LONG_INTEGERS),
    forwardedHeaders,
    lossy: isObject(postern) ? postern["lossy"] : undefined,
    lossyHeader: headers.get(LOSSY_HEADER),
    strictHeader: headers.get(STRICT_HEADER),
    restrictions: caller.restrictions,
    guardrailsAt: caller.guardrailsAt,
  };
  return createHash("sha256").update(canonicalText(identity)).digest("hex");
}

/** `run` stores its reply if it gets the call of the cache. */
export async function withResponseCache(
  deps: IdempotencyDeps,
  input: CallInput,
  use: IdempotentCall | "bypass",
  run: (input: CallInput) => Promise<Response>,
): Promise<Response> {
  if (use === "bypass") return marked(await run(input), "bypass");
  const stored = await claimReply(deps, input, use, true).catch(bypassRunning);
  if (stored === "running" || (stored !== undefined && stored.status !== 200))
    return marked(await run(input), "bypass");
  if (stored !== undefined) return cachedResponse(stored, input, deps.now());
  const caching = { ...input, idempotent: use };
  return marked(await runClaimed(deps, input, use, () => run(caching)), "miss");
}

/** An identical call has not ended yet, and this one does not wait for it; or the key has changed, which the hold then reads. */
function bypassRunning(error: unknown): "running" {
  if (error instanceof Fault && error.code === "conflict") return "running";
  throw error;
}

function cachedResponse(stored: ClaimedReply, { text }: CallInput, now: number): Response {
  const seconds = Math.max(0, Math.floor((now - stored.createdAt) / SECOND_MS));
  const response = storedResponse(stored, text, {
    age: String(seconds),
    "x-postern-cost-usd": "0",
  });
  // It is about the call that was charged.
  response.headers.delete(RECEIPT_HEADER);
  return marked(response, "hit");
}

function marked(response: Response, result: CacheResult): Response {
  response.headers.set(CACHE_HEADER, result);
  return response;
}
