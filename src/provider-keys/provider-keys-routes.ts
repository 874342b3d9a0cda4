// Routes of /v1/provider-keys.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { secret } from "../base/crypto/secret.ts";
import { endedKeyFault, Fault } from "../base/fault.ts";
import { type Caller, keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import { cursorSchema, listResponse, PageQuery } from "../http/schemas.ts";
import { SCOPE_NAMES } from "../http/scopes.ts";
import { findLiveKey } from "../keys/live-keys.ts";
import type { Db, Tx } from "../store/db.ts";
import {
  ChangeProviderKeyRequest,
  NewProviderKeyRequest,
  PROVIDER_KEY_EXAMPLE,
  ProviderKeyRecord,
  toProviderKeyRecord,
  toSettings,
} from "./provider-key-record.ts";
import {
  listProviderKeys,
  lockProviderKey,
  type ProviderKey,
  type ProviderKeys,
  type ProviderKeySettings,
  type ProviderKeyUse,
} from "./provider-keys.ts";

export interface ProviderKeyRouteDeps {
  readonly db: Db;
  readonly providerKeys: ProviderKeys;
}

const ProviderKeyPath = z.object({
  id: z.string().meta({ description: "The provider key's id.", example: PROVIDER_KEY_EXAMPLE.id }),
});

export function providerKeyRoutes(deps: ProviderKeyRouteDeps): readonly Route[] {
  const { db, providerKeys } = deps;
  return [
    addRoute(providerKeys),
    listRoute(db),
    changeRoute(providerKeys),
    deleteRoute(providerKeys),
  ];
}

function addRoute(providerKeys: ProviderKeys): Route {
  return keyWriteRoute({
    method: "POST",
    path: "/v1/provider-keys",
    id: "addProviderKey",
    scope: "provider_keys:write",
    tag: "Provider keys",
    summary: "Add a provider key",
    description:
      "Calls to the provider's models are then billed to your own account at the provider and cost no credits. The key is verified at the provider first, for up to five seconds; a rejected key is not stored. By default, only calls with the API key that adds it use it. An API key that acts as the owner can set `api_key_ids`: one of an unclaimed account, without a limit and with all scopes. Owners and admins choose the API keys in the console. The provider stores no requests and replies unless `allow_store` is true. If there are several keys for a provider, the newest is used: to rotate a key, add the new one, then delete the old one.",
    dialect: "openai",
    body: NewProviderKeyRequest,
    requestExample: { provider: "openai", api_key: "<YOUR_OPENAI_API_KEY>", name: "team account" },
    responses: oneResponse(
      "The provider key's record. The raw key is never returned.",
      ProviderKeyRecord,
      PROVIDER_KEY_EXAMPLE,
      201,
    ),
    faults: ["forbidden", "conflict"],
    // The result is used in the transaction, so that a repeated request gets its first response whatever the provider says now.
    before: ({ body }) => providerKeys.check(body.provider, secret(body.api_key)),
    run: async (tx, { caller, body, clientIp, now }, checkResult) => {
      const access = await lockProviderKeyAccess(tx, caller, now);
      const newKey = {
        provider: body.provider,
        apiKey: secret(body.api_key),
        name: body.name ?? null,
        addedBy: caller.keyId,
        ...newProviderKeyUse(access, toSettings(body)),
        checkResult,
      };
      const key = await providerKeys.add(tx, keyAct(caller, { clientIp, now }), newKey);
      return { status: 201, body: toProviderKeyRecord(key) };
    },
  });
}

function changeRoute(providerKeys: ProviderKeys): Route {
  return keyWriteRoute({
    method: "PATCH",
    path: "/v1/provider-keys/{id}",
    id: "changeProviderKey",
    scope: "provider_keys:write",
    tag: "Provider keys",
    summary: "Change a provider key's name, API keys or `allow_store`",
    description:
      "Only the fields in the request are changed. If the gateway runs in several processes, calls may use the former settings for another five seconds. In a claimed account, and with a key that does not act as the owner, a call can only rename provider keys that the calling key added for itself, and set their `allow_store` to `false`; owners and admins change the rest in the console.",
    dialect: "openai",
    params: ProviderKeyPath,
    body: ChangeProviderKeyRequest,
    requestExample: { api_key_ids: null, allow_store: true },
    responses: oneResponse("The changed record.", ProviderKeyRecord, {
      ...PROVIDER_KEY_EXAMPLE,
      api_key_ids: null,
      allow_store: true,
    }),
    faults: ["forbidden", "not_found", "conflict"],
    run: async (tx, { caller, params, body, clientIp, now }) => {
      const access = await lockProviderKeyAccess(tx, caller, now);
      const before = await lockProviderKey(tx, caller.accountId, params.id);
      const settings = toSettings(body);
      assertMayChange(access, before, settings);
      const act = keyAct(caller, { clientIp, now });
      const key = await providerKeys.change(tx, act, params.id, settings);
      return { status: 200, body: toProviderKeyRecord(key) };
    },
  });
}

function listRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/provider-keys",
    id: "listProviderKeys",
    scope: "provider_keys:read",
    tag: "Provider keys",
    summary: "List your provider keys",
    description: "Lists provider keys, newest first, including deleted ones.",
    dialect: "openai",
    query: z.strictObject({ ...PageQuery, cursor: cursorSchema("pk") }),
    responses: listResponse(
      "A page of provider keys.",
      ProviderKeyRecord,
      "ProviderKeyList",
      PROVIDER_KEY_EXAMPLE,
    ),
    faults: [],
    run: async ({ caller, query }) => {
      const page = await listProviderKeys(db, caller.accountId, query);
      return { status: 200, body: { ...page, data: page.data.map(toProviderKeyRecord) } };
    },
  });
}

function deleteRoute(providerKeys: ProviderKeys): Route {
  return keyWriteRoute({
    method: "DELETE",
    path: "/v1/provider-keys/{id}",
    id: "deleteProviderKey",
    scope: "provider_keys:write",
    tag: "Provider keys",
    summary: "Delete a provider key",
    description:
      "Destroys the encrypted key and keeps its record for past usage. If the gateway runs in several processes, calls may use the key for another five seconds. Later calls use your next newest key for the provider, or credits if there is none. Deleting a deleted key changes nothing.",
    dialect: "openai",
    params: ProviderKeyPath,
    responses: oneResponse("The record of the deleted key.", ProviderKeyRecord, {
      ...PROVIDER_KEY_EXAMPLE,
      status: "deleted",
    }),
    faults: ["forbidden", "not_found"],
    run: async (tx, { caller, params, clientIp, now }) => {
      const access = await lockProviderKeyAccess(tx, caller, now);
      const before = await lockProviderKey(tx, caller.accountId, params.id);
      assertMayDelete(access, before);
      const key = await providerKeys.remove(tx, keyAct(caller, { clientIp, now }), params.id);
      return { status: 200, body: toProviderKeyRecord(key) };
    },
  });
}

// What an API key may do with provider keys. A provider key receives the prompts of the API keys that use it, so a key gives it
// only its own, unless the key acts as the owner of an account that has none.

interface ProviderKeyAccess {
  readonly accountId: string;
  readonly keyId: string;
  readonly isClaimed: boolean;
  /** True if the key acts as the owner. */
  readonly isOwner: boolean;
  /** False for a key with a limit, a policy or a list of scopes. */
  readonly reachesOthers: boolean;
}

/** Locks the account, so that a concurrent claim comes before or after. */
async function lockProviderKeyAccess(
  tx: Tx,
  { accountId, keyId }: Caller,
  now: number,
): Promise<ProviderKeyAccess> {
  const [account] = await tx.lockMany("account", "id", [accountId]);
  const isClaimed = (account?.["claimed_at"] ?? null) !== null;
  const key = await findLiveKey(tx, keyId, now);
  if (key === undefined) throw endedKeyFault("key revoked or expired");
  const isOwner = !isClaimed && key.granted.size === SCOPE_NAMES.length;
  const reachesOthers = key.granted.has("keys:manage");
  return { accountId, keyId, isClaimed, isOwner, reachesOthers };
}

/** The use of a new provider key. Without a list, it serves the key that adds it. */
function newProviderKeyUse(
  access: ProviderKeyAccess,
  { apiKeyIds = [access.keyId], allowStore = false }: ProviderKeySettings,
): ProviderKeyUse {
  if (!access.isOwner) assertOwnUse(access, { apiKeyIds, allowStore });
  return { apiKeyIds, allowStore };
}

function assertMayChange(
  access: ProviderKeyAccess,
  before: ProviderKey,
  { apiKeyIds = before.apiKeyIds, allowStore = false }: ProviderKeySettings,
): void {
  if (access.isOwner) return;
  assertOwn(access, before, "A key can only change the provider keys that it added for itself.");
  assertOwnUse(access, { apiKeyIds, allowStore });
}

function assertMayDelete(access: ProviderKeyAccess, before: ProviderKey): void {
  if (access.reachesOthers) return;
  assertOwn(
    access,
    before,
    "A key with a limit, a policy or a list of scopes only deletes the provider keys that it added for itself.",
  );
}

function assertOwnUse(access: ProviderKeyAccess, { apiKeyIds, allowStore }: ProviderKeyUse): void {
  if (!servesOnly(apiKeyIds, access.keyId))
    throw ownerOnlyFault(
      access,
      "api_key_ids",
      `A key can only add provider keys for its own calls. Leave \`api_key_ids\` out, or set it to ["${access.keyId}"].`,
    );
  if (allowStore)
    throw ownerOnlyFault(access, "allow_store", "A key cannot allow the provider to store calls.");
}

function assertOwn(access: ProviderKeyAccess, key: ProviderKey, message: string): void {
  if (key.addedBy !== access.keyId || !servesOnly(key.apiKeyIds, access.keyId))
    throw ownerOnlyFault(access, "id", message);
}

function servesOnly(apiKeyIds: ProviderKey["apiKeyIds"], keyId: string): boolean {
  return apiKeyIds !== null && apiKeyIds.every((id) => id === keyId);
}

function ownerOnlyFault(access: ProviderKeyAccess, param: string, message: string): Fault {
  const { accountId, isClaimed } = access;
  return new Fault("forbidden", `a key cannot set ${param} of a provider key`, {
    message: isClaimed
      ? `${message} Owners and admins of the account can do it in the console.`
      : `${message} The first key of the account can do it.`,
    param,
    next: isClaimed
      ? [
          {
            method: "GET",
            url: `/console/${accountId}/provider-keys`,
            why: "The provider keys page of the console.",
          },
        ]
      : [{ method: "GET", url: "/v1/provider-keys", why: "List the provider keys." }],
  });
}
