// The handler of the endpoints that charge for a call, and what their routes have in common.

import { isPaymentCredential } from "../../http/request/api-key-header.ts";
import {
  type IdempotentCall,
  readIdempotencyKey,
  scopeOfKey,
} from "../../http/request/idempotent-call.ts";
import { LABELS_HEADER } from "../../usage/labels.ts";
import { SESSION_HEADERS } from "../../usage/session-labels.ts";
import type { CallInput } from "../lifecycle/call.ts";
import { PRESET_HEADER } from "../lifecycle/expand-preset.ts";
import { infer, type InferDeps } from "../lifecycle/infer.ts";
import { type IdempotencyDeps, withIdempotency } from "../lifecycle/with-idempotency.ts";
import {
  type PaymentDeps,
  type WalletDeps,
  withPayment,
  withWallet,
} from "../lifecycle/with-payment.ts";
import { readCacheUse, withResponseCache } from "../lifecycle/with-response-cache.ts";
import {
  CACHE_HEADER,
  HOLD_HEADER,
  LOSSY_HEADER,
  MAX_COST_HEADER,
  ON_MAX_COST_HEADER,
  QUOTE_HEADER,
  RECEIPT_HEADER,
  SESSION_LIMIT_HEADER,
} from "../request/call-options.ts";
import type { Api } from "../request/parse-request.ts";
import { CALL_ROUTE, type CallRouteInput, callInputOf } from "./call-route.ts";

export interface CallDeps {
  readonly infer: InferDeps;
  readonly idempotency: IdempotencyDeps;
  /** Undefined where a call cannot pay for itself. */
  readonly payment: PaymentDeps | undefined;
  /** Undefined where every call needs a key. */
  readonly wallet: WalletDeps | undefined;
}

export const MODEL_FAULTS = [
  "insufficient_credits",
  "forbidden",
  "key_limit_reached",
  "session_limit_reached",
  "session_stopped",
  "workspace_budget_reached",
  "workspace_frozen",
  "guardrail_denied",
  "model_not_found",
  "conflict",
  "upstream_error",
  "provider_not_configured",
  "upstream_timeout",
] as const;

export const BILLED_ROUTE = {
  ...CALL_ROUTE,
  idempotent: true,
  requestHeaders: {
    [LABELS_HEADER]: "Up to five labels of usage, such as `team=search, job=nightly`.",
    [SESSION_HEADERS.session]: "The session of the call: up to 64 letters, digits and `_.:@+-`.",
    [SESSION_HEADERS.agent]: "The agent of the session that makes the call.",
    [SESSION_HEADERS.parent_agent]: "The agent that started this agent.",
    [SESSION_LIMIT_HEADER]: "The most that the session may spend, in US dollars.",
    [MAX_COST_HEADER]: "As `postern.max_cost_usd`.",
    [ON_MAX_COST_HEADER]: "As `postern.on_max_cost`.",
    [HOLD_HEADER]: "As `postern.hold`.",
    [QUOTE_HEADER]: "The `offer` of a quote for this request, as `postern.quote`.",
    [RECEIPT_HEADER]: "`1`: sign a receipt of the call, as `postern.receipt`.",
    [CACHE_HEADER]: "As `postern.cache`.",
    "x-postern-strict": "`true`: a 400 instead of dropping a field.",
    [LOSSY_HEADER]: "`true` or `false`, as `postern.lossy`.",
  },
} as const;

export const RESPONSE_HEADERS = {
  "x-postern-cost-usd": "In US dollars. A stream has it in its usage.",
  [RECEIPT_HEADER]: "The signed receipt, if asked for; not on streams.",
  [CACHE_HEADER]: "`hit`, `miss` or `bypass`.",
  [PRESET_HEADER]: "The preset, such as `reviewer@3`.",
  "ratelimit-policy": "Calls per minute and burst, if the key has a limit.",
  ratelimit: "Its rest, and seconds until it is full.",
  "x-postern-max-tokens": "The output limit that credits afford, if lower.",
  "x-postern-budget-cut": "`true` if `max_cost_usd` or a stream's credits lowered it.",
  "x-postern-max-tool-calls": "The gateway's limit of tool calls.",
  "x-postern-held-tool-calls": "Tool calls that the hold covers.",
  "x-postern-web-search": "`gateway` if it searched.",
  "x-postern-dropped": "Fields that an API cannot express: see `/docs/translation`.",
  "x-postern-byok": "Whether your provider key was used.",
  "x-postern-provider": "The provider that replied.",
  "x-postern-model": "The model that replied.",
};

export function callHandler(
  { infer: inferDeps, idempotency, payment, wallet }: CallDeps,
  api: Api,
): (input: CallRouteInput) => Promise<Response> {
  return (routeInput) => {
    const { headers, request, caller } = routeInput;
    // One signature pays for one call, so it needs no other idempotency.
    if (caller.isAnonymous === true) {
      if (wallet === undefined) throw new Error("a call without a key on a route that needs one");
      const keyless = callInputOf(api, routeInput);
      return withWallet(wallet, keyless, request.url, (call) => infer(inferDeps, call));
    }
    const hasPayment = payment !== undefined && containsPayment(headers);
    const unkeyed = callInputOf(api, routeInput, { hasPayment });
    const idempotent = idempotentCallOf(unkeyed, idempotency.now());
    const input = idempotent === undefined ? unkeyed : { ...unkeyed, idempotent };
    const run = (call: CallInput): Promise<Response> =>
      payment === undefined
        ? infer(inferDeps, call)
        : withPayment(payment, call, request.url, () => infer(inferDeps, call));
    if (idempotent !== undefined)
      return withIdempotency(idempotency, input, idempotent, () => run(input));
    const cache = readCacheUse(input, idempotency.now());
    return cache === undefined ? run(input) : withResponseCache(idempotency, input, cache, run);
  };
}

function containsPayment(headers: Headers): boolean {
  return headers.has("payment-signature") || isPaymentCredential(headers.get("authorization"));
}

// `now` is after the body, which may arrive minutes after the request: the key's age counts from there.
function idempotentCallOf(
  { api, caller, headers, text }: CallInput,
  now: number,
): IdempotentCall | undefined {
  const key = readIdempotencyKey(headers);
  return key === undefined ? undefined : { ...scopeOfKey(caller, api), key, body: text, now };
}
