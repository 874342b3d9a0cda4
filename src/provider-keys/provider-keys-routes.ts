// Routes of /v1/provider-keys.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { secret } from "../base/crypto/secret.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import { cursorSchema, listSchema, PageQuery } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import {
  assertMayChange,
  assertMayDelete,
  lockProviderKeyAccess,
  newProviderKeyUse,
} from "./caller-access.ts";
import {
  ChangeProviderKeyRequest,
  NewProviderKeyRequest,
  PROVIDER_KEY_EXAMPLE,
  ProviderKeyRecord,
  toProviderKeyRecord,
  toSettings,
} from "./provider-key-record.ts";
import { listProviderKeys, lockProviderKey, type ProviderKeys } from "./provider-keys.ts";

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
    responses: {
      201: {
        description: "The provider key's record. The raw key is never returned.",
        schema: ProviderKeyRecord,
        example: PROVIDER_KEY_EXAMPLE,
      },
    },
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
    responses: {
      200: {
        description: "The changed record.",
        schema: ProviderKeyRecord,
        example: { ...PROVIDER_KEY_EXAMPLE, api_key_ids: null, allow_store: true },
      },
    },
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
    responses: {
      200: {
        description: "A page of provider keys.",
        schema: listSchema(ProviderKeyRecord, "ProviderKeyList"),
        example: {
          object: "list",
          data: [PROVIDER_KEY_EXAMPLE],
          has_more: false,
          next_cursor: null,
        },
      },
    },
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
    responses: {
      200: {
        description: "The record of the deleted key.",
        schema: ProviderKeyRecord,
        example: { ...PROVIDER_KEY_EXAMPLE, status: "deleted" },
      },
    },
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
