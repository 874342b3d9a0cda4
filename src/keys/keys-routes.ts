// Routes of /v1/keys.

import { z } from "zod";
import { getAccount } from "../accounts/accounts.ts";
import { keyAct } from "../activity/audit.ts";
import { parseDataRules } from "../base/data-rules.ts";
import { invalid } from "../base/fault.ts";
import { type Nano, nanoFromUsd, usdText } from "../base/money/money.ts";
import { LIMIT_WINDOWS } from "../base/money/spend-window.ts";
import { SECOND_MS } from "../base/time.ts";
import { type Caller, keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import {
  cursorSchema,
  listResponse,
  OverlapSeconds,
  PageQuery,
  Timestamp,
  UsdAmount,
} from "../http/schemas.ts";
import { LISTABLE_SCOPES } from "../http/scopes.ts";
import type { Db } from "../store/db.ts";
import {
  changeKeyForCaller,
  createKeyForCaller,
  revokeKeyForCaller,
  rotateKeyForCaller,
} from "./delegation.ts";
import { NewCredential, type ProvePublicKey, toCredentialSettings } from "./key-credential.ts";
import { KEY_EXAMPLE, KeyRecord, POLICY_SCHEMA, toKeyRecord } from "./key-record.ts";
import { type KeySettings, NAME_MAX, type PolicyChange } from "./key-settings.ts";
import { getKey, type Keys, listKeys } from "./keys.ts";
import { countLiveKeys } from "./live-keys.ts";

const KeySettingsBody = z
  .strictObject({
    name: z
      .string()
      .trim()
      .min(1)
      .max(NAME_MAX)
      .nullable()
      .optional()
      .meta({ description: "Its name." }),
    expires_at: Timestamp.nullable().optional().meta({ description: "When the key expires." }),
    limit_usd: UsdAmount.nullable()
      .optional()
      .meta({ description: "Spending limit in US dollars." }),
    limit_window: z
      .enum(LIMIT_WINDOWS)
      .nullable()
      .optional()
      .meta({ description: "How often it resets; null for never." }),
    scopes: z
      .array(z.enum(LISTABLE_SCOPES))
      .min(1, "must have at least one scope; leave it out for those of the calling key")
      .max(LISTABLE_SCOPES.length)
      .nullable()
      .optional()
      .meta({
        description:
          "What the key may do: see `/docs/keys`. null for all scopes that a key with or without a limit can have. A `:write` scope includes `:read`.",
      }),
    ...z.object(POLICY_SCHEMA).partial().shape,
  })
  .meta({ id: "ApiKeySettings" });

const NewKeyBody = KeySettingsBody.extend({
  credential: NewCredential.optional().meta({
    description: "See `/docs/keys-without-secrets`.",
  }),
}).meta({ id: "NewApiKeySettings" });

export interface KeyRouteDeps {
  readonly db: Db;
  readonly keys: Keys;
  readonly provePublicKey: ProvePublicKey;
}

export function keyRoutes({ db, keys, provePublicKey }: KeyRouteDeps): readonly Route[] {
  return [
    createRoute(keys, provePublicKey),
    listRoute(db),
    ownRoute(db),
    getRoute(db),
    changeRoute(),
    rotateRoute(keys),
    revokeRoute(),
  ];
}

const RawKey = z.string().meta({ description: "The raw key, shown only once." });
const NewKeyRecord = KeyRecord.extend({
  api_key: RawKey.nullable().meta({
    description: "The raw key, shown only once; null for a key with a `credential`.",
  }),
}).meta({ id: "NewApiKey" });
const RotatedKeyRecord = KeyRecord.extend({ api_key: RawKey }).meta({ id: "RotatedApiKey" });

const NEW_KEY_EXAMPLE = {
  ...KEY_EXAMPLE,
  api_key: "pst-rt-8Kd0aQm3VtR5xWc7ZbN1LfJ9HgS4PyE6UoTiA2KdM8q0hXy2b",
};

function createRoute(keys: Keys, provePublicKey: ProvePublicKey): Route {
  return keyWriteRoute({
    method: "POST",
    path: "/v1/keys",
    id: "createKey",
    revealsSecret: true,
    scope: "keys:write",
    tag: "Keys",
    summary: "Create a key",
    description:
      "Limit and scopes are at most those of the calling key; a limited key must set `limit_usd`, which is subtracted from its own. Restrictions are inherited.",
    dialect: "openai",
    body: NewKeyBody,
    requestExample: { name: "ci", limit_usd: 5, limit_window: "day" },
    responses: oneResponse("The key, with its raw value.", NewKeyRecord, NEW_KEY_EXAMPLE, 201),
    faults: ["forbidden", "conflict"],
    run: async (tx, input) => {
      const { caller, body, clientIp, now } = input;
      const credential = body.credential && toCredentialSettings(body.credential);
      if (credential?.type === "public_key") await provePublicKey(tx, input, credential.x);
      const settings = { ...parseSettings(body), credential };
      const act = keyAct(caller, { clientIp, now });
      const creation = { settings, callerId: caller.keyId };
      const { key, raw } = await createKeyForCaller(tx, act, keys, creation);
      const apiKey = credential === undefined ? raw : null;
      return { status: 201, body: { ...toKeyRecord(key), api_key: apiKey } };
    },
  });
}

function listRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/keys",
    id: "listKeys",
    scope: "keys:read",
    tag: "Keys",
    summary: "List keys",
    description: "Newest first, including revoked keys. Raw keys cannot be shown again.",
    dialect: "openai",
    query: z.strictObject({
      ...PageQuery,
      cursor: cursorSchema("key"),
      derived_from: z
        .string()
        .regex(/^key_[0-9a-z]{26}$/, `must be the id of a key, such as ${KEY_EXAMPLE.id}`)
        .optional()
        .meta({ description: "Only keys below this one." }),
    }),
    responses: listResponse("A page of keys.", KeyRecord, "ApiKeyList", KEY_EXAMPLE),
    faults: [],
    run: async ({ caller, query: { derived_from: derivedFrom, ...query }, now }) => {
      const page = await listKeys(db, caller.accountId, { ...query, derivedFrom }, now);
      return { status: 200, body: { ...page, data: page.data.map(toKeyRecord) } };
    },
  });
}

function ownRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/keys/self",
    id: "getOwnKey",
    scope: undefined,
    tag: "Keys",
    summary: "Get the calling key",
    description:
      "The limit, the spend, the scopes and the policy of the key that sends the request. Needs no scope.",
    dialect: "openai",
    query: z.strictObject({}),
    responses: oneResponse("The key.", KeyRecord, KEY_EXAMPLE),
    faults: [],
    run: async ({ caller, now }) => ({
      status: 200,
      body: toKeyRecord(await getKey(db, caller.accountId, caller.keyId, now)),
    }),
  });
}

const KeyPath = z.object({
  id: z
    .string()
    .meta({ description: "The key's id, or `self`: the calling key.", example: KEY_EXAMPLE.id }),
});

function keyIdOf({ id }: z.infer<typeof KeyPath>, { keyId }: Caller): string {
  return id === "self" ? keyId : id;
}

function getRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/keys/{id}",
    id: "getKey",
    scope: "keys:read",
    tag: "Keys",
    summary: "Get a key",
    dialect: "openai",
    params: KeyPath,
    responses: oneResponse("The key.", KeyRecord, KEY_EXAMPLE),
    faults: ["not_found"],
    run: async ({ caller, params, now }) => ({
      status: 200,
      body: toKeyRecord(await getKey(db, caller.accountId, params.id, now)),
    }),
  });
}

const KeyChangeBody = KeySettingsBody.extend({
  former_secret: z.null().optional().meta({
    description: "null ends the overlap of a rotation: the former secret is rejected.",
  }),
}).meta({ id: "ApiKeyChange" });

function changeRoute(): Route {
  return keyWriteRoute({
    method: "PATCH",
    path: "/v1/keys/{id}",
    id: "changeKey",
    scope: "keys:write",
    tag: "Keys",
    summary: "Change a key's name, limit, expiry, scopes or policy",
    description:
      "Only the fields in the request are changed; null removes a setting. In a claimed account, keys can only lower limits, bring expiries forward, remove scopes and restrict what is not restricted yet; an owner can raise them in the console. A key with a limit, a policy or a list of scopes can only change itself and keys that it created.",
    dialect: "openai",
    params: KeyPath,
    body: KeyChangeBody,
    requestExample: { name: "nightly build" },
    responses: oneResponse("The changed key.", KeyRecord, {
      ...KEY_EXAMPLE,
      name: "nightly build",
    }),
    faults: ["forbidden", "not_found", "conflict"],
    run: async (tx, { caller, params, body, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      const key = await changeKeyForCaller(tx, act, keyIdOf(params, caller), {
        ...parseSettings(body),
        formerSecret: body.former_secret,
      });
      return { status: 200, body: toKeyRecord(key) };
    },
  });
}

/** While a secret is shown again to a repeated request, which must be able to send it with the former secret. */
const OWN_OVERLAP_SECONDS_MIN = 10 * 60;

const RotationBody = z
  .strictObject({
    overlap_seconds: OverlapSeconds.meta({
      description:
        "How long the former secret is accepted too; a day by default, a week at most, 0 for not at all.",
    }),
  })
  .meta({ id: "KeyRotation" });

function rotateRoute(keys: Keys): Route {
  return keyWriteRoute({
    method: "POST",
    path: "/v1/keys/{id}/rotate",
    id: "rotateKey",
    revealsSecret: true,
    scope: "keys:write",
    tag: "Keys",
    summary: "Rotate a key",
    description:
      'Replaces the secret of the key. The id, limits, spend, scopes, policy and the keys that it created stay as they are. The raw key is only returned in this response; send a random `Idempotency-Key` to get it again if the response is lost. Both secrets are accepted until `former_secret.expires_at`; `former_secret.last_used_at` tells whether a program still uses the former one. End the overlap early with PATCH /v1/keys/{id} `{"former_secret": null}`. Other processes of the gateway notice it within five seconds. Another rotation replaces the former secret with the current one. A key that rotates itself needs an overlap of at least ten minutes. If a key has leaked, rotate it with another key and `overlap_seconds` 0, or revoke it.',
    dialect: "openai",
    params: KeyPath,
    body: RotationBody,
    requestExample: { overlap_seconds: 3600 },
    responses: oneResponse("The key, with its new raw value.", RotatedKeyRecord, {
      ...NEW_KEY_EXAMPLE,
      former_secret: {
        last4: "8q0h",
        expires_at: "2026-11-21T10:30:00.000Z",
        last_used_at: null,
      },
    }),
    faults: ["forbidden", "not_found", "conflict"],
    run: async (tx, { caller, params, body, clientIp, now }) => {
      const id = keyIdOf(params, caller);
      const { overlap_seconds: overlapSeconds } = body;
      if (id === caller.keyId && overlapSeconds < OWN_OVERLAP_SECONDS_MIN)
        throw invalid(
          "overlap_seconds",
          `\`overlap_seconds\` must be at least ${OWN_OVERLAP_SECONDS_MIN} if a key rotates itself, so that a lost response can be requested again. End the overlap earlier with the new secret: PATCH /v1/keys/${id} {"former_secret": null}.`,
        );
      const act = keyAct(caller, { clientIp, now });
      const rotation = { id, overlapMs: overlapSeconds * SECOND_MS };
      const { key, raw } = await rotateKeyForCaller(tx, act, keys, rotation);
      return { status: 200, body: { ...toKeyRecord(key), api_key: raw } };
    },
  });
}

const LAST_WARNING =
  "This was the last live key of the account. An owner can create another one in the console.";
const LOST_WARNING =
  "This was the last live key of the account, and no human has claimed it: its balance is out of reach, and no new key can be created.";

function revokeRoute(): Route {
  return keyWriteRoute({
    method: "DELETE",
    path: "/v1/keys/{id}",
    id: "revokeKey",
    scope: "keys:write",
    tag: "Keys",
    summary: "Revoke a key",
    description:
      "The key is rejected from the next request on. Repeating the request returns the same response. A key can revoke itself and other keys; with a limit, a policy or a list of scopes, only itself and keys that it created. If no live key is left, the response has `warning`, also as the header `x-postern-warning`, because the balance of an unclaimed account is then out of reach.",
    dialect: "openai",
    params: KeyPath,
    responses: oneResponse(
      "The revoked key.",
      KeyRecord.extend({
        warning: z
          .string()
          .optional()
          .meta({ description: "Only if no live key is left: what that means." }),
      }).meta({ id: "RevokedKey" }),
      { ...KEY_EXAMPLE, revoked_at: "2026-11-21T10:00:00.000Z" },
    ),
    faults: ["forbidden", "not_found"],
    run: async (tx, { caller, params, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      const key = await revokeKeyForCaller(tx, act, keyIdOf(params, caller));
      const isLast = (await countLiveKeys(tx, caller.accountId, now)) === 0;
      if (!isLast) return { status: 200, body: toKeyRecord(key) };
      const { claimedAt } = await getAccount(tx, caller.accountId);
      return {
        status: 200,
        body: { ...toKeyRecord(key), warning: claimedAt === null ? LOST_WARNING : LAST_WARNING },
        headers: { "x-postern-warning": "no live key is left on this account" },
      };
    },
  });
}

function parseSettings(body: z.infer<typeof KeySettingsBody>): KeySettings {
  return {
    name: body.name,
    expiresAt: typeof body.expires_at === "string" ? Date.parse(body.expires_at) : body.expires_at,
    limit:
      body.limit_usd === undefined || body.limit_usd === null
        ? body.limit_usd
        : parseLimit(body.limit_usd),
    limitWindow: body.limit_window,
    scopes: body.scopes,
    policy: parsePolicyFields(body),
    alertPercents: body.alert_percents,
  };
}

function parsePolicyFields(body: z.infer<typeof KeySettingsBody>): PolicyChange {
  const { max_price_per_million_usd: maxPrice, session_limit_usd: sessionLimit } = body;
  return {
    models: body.allowed_models,
    providers: body.allowed_providers,
    endpoints: body.allowed_endpoints,
    mcpServers: body.allowed_mcp_servers,
    session: body.session,
    receipts: body.receipts,
    cacheSeconds: body.cache_ttl,
    promptLogging: body.prompt_logging,
    requestsPerMinute: body.requests_per_minute,
    tokensPerMinute: body.tokens_per_minute,
    concurrentCalls: body.max_concurrent_calls,
    maxPriceUsd: typeof maxPrice === "number" ? String(maxPrice) : maxPrice,
    dataPolicy:
      typeof body.data_policy === "string" ? parseDataRules(body.data_policy) : body.data_policy,
    sessionLimitUsd:
      typeof sessionLimit === "number"
        ? usdText(parseLimit(sessionLimit, "session_limit_usd"))
        : sessionLimit,
  };
}

function parseLimit(usd: string | number, param = "limit_usd"): Nano {
  const limit = nanoFromUsd(usd);
  if (limit === undefined)
    throw invalid(
      param,
      `\`${param}\` must be an amount of US dollars with at most nine decimals.`,
    );
  return limit;
}
