// Sends texts of a call to a hook, and reads its verdict: one signed POST with a JSON response.

import { createHash } from "node:crypto";
import { type SigningKey, signJws } from "../base/crypto/jws.ts";
import type { GuardedCall, GuardedText, GuardPhase } from "../base/guard.ts";
import { isObject, parseJson } from "../base/json.ts";
import { parseEndpoint, type ResolveHost } from "../base/network/public-endpoint.ts";
import { send } from "../base/network/send-to-endpoint.ts";
import { SECOND_MS } from "../base/time.ts";
import type { HookSettings } from "./guardrails.ts";

/** The `typ` of the signature's header. */
const HOOK_TYPE = "postern-guardrail+jwt";
const SIGNATURE_LIFETIME_MS = 60 * SECOND_MS;
const RESPONSE_MAX_BYTES = 4_194_304;
const REASON_MAX = 300;

export interface CallHookDeps {
  readonly issuer: string;
  readonly signingKey: () => SigningKey;
  readonly now: () => number;
  readonly resolve: ResolveHost;
  readonly allowLoopback: boolean;
}

export interface HookRequest {
  readonly guardrail: string;
  readonly call: GuardedCall;
  readonly phase: GuardPhase;
  readonly texts: readonly GuardedText[];
  /** Set for a part of a stream. */
  readonly isLast?: boolean;
}

export type HookVerdict =
  | { readonly action: "allow" }
  | { readonly action: "deny"; readonly reason: string }
  | { readonly action: "rewrite"; readonly texts: readonly string[] }
  | { readonly action: "failed"; readonly reason: string };

export async function callHook(
  deps: CallHookDeps,
  hook: HookSettings,
  request: HookRequest,
): Promise<HookVerdict> {
  const body = JSON.stringify(bodyOf(request));
  const { status, error, response } = await send({
    endpoint: parseEndpoint(hook.url, deps.allowLoopback),
    headers: {
      "user-agent": "Postern-Guardrails",
      authorization: `Bearer ${signatureOf(deps, hook, request, body)}`,
    },
    body,
    timeoutMs: hook.timeout_ms,
    responseMaxBytes: RESPONSE_MAX_BYTES,
    resolve: deps.resolve,
    signal: new AbortController().signal,
  });
  if (error !== null) return failed(error);
  if (status !== 200) return failed(`it responded with status ${String(status)}`);
  return readVerdict(response, request);
}

function bodyOf({ guardrail, call, phase, texts, isLast }: HookRequest) {
  const { requestId, accountId, keyId, api } = call;
  return {
    object: "guardrail.check",
    guardrail,
    phase,
    request_id: requestId,
    account_id: accountId,
    key_id: keyId,
    api,
    ...(isLast === undefined ? {} : { is_part: true, is_last: isLast }),
    texts,
  };
}

/** A receiver checks the account, because every account can have the gateway send requests to its URL. */
function signatureOf(
  { issuer, signingKey, now }: CallHookDeps,
  { url }: HookSettings,
  { call: { accountId } }: HookRequest,
  body: string,
): string {
  const at = now();
  return signJws(signingKey(), HOOK_TYPE, {
    iss: issuer,
    sub: accountId,
    aud: url,
    iat: Math.floor(at / SECOND_MS),
    exp: Math.floor((at + SIGNATURE_LIFETIME_MS) / SECOND_MS),
    body_sha256: createHash("sha256").update(body).digest("hex"),
  });
}

function readVerdict(response: string, { texts, isLast }: HookRequest): HookVerdict {
  const verdict = parseJson(response);
  if (!isObject(verdict)) return failed("its response is not a JSON object");
  const { action, reason, texts: rewritten } = verdict;
  if (action === "allow") return { action };
  if (action === "deny")
    return { action, reason: typeof reason === "string" ? shortened(reason) : "" };
  if (action !== "rewrite")
    return failed('its response has no `action` of "allow", "deny" or "rewrite"');
  if (isLast !== undefined) return failed("it responded with `rewrite` to a part of a stream");
  const isWhole =
    Array.isArray(rewritten) &&
    rewritten.length === texts.length &&
    rewritten.every((text) => typeof text === "string");
  return isWhole
    ? { action, texts: rewritten }
    : failed(`its \`texts\` are not ${texts.length} strings`);
}

/** The reason without line breaks and control characters, because it becomes part of an error. */
function shortened(reason: string): string {
  return reason
    .replaceAll(/[\s\p{C}]+/gu, " ")
    .trim()
    .slice(0, REASON_MAX);
}

function failed(reason: string): HookVerdict {
  return { action: "failed", reason };
}
