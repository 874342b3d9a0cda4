// Routes of /v1/provider-keys.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { secret } from "../base/secret.ts";
import { cursorSchema, listSchema, PageQuery } from "../http/schemas.ts";
import { type Caller, keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import { findLiveKey } from "../keys/live-keys.ts";
import type { Db, Tx } from "../store/db.ts";
import { type KeyCheckResult, UNCHECKED } from "./key-check.ts";
import {
  listProviderKeys,
  lockProviderKey,
  type ProviderKey,
  type ProviderKeys,
} from "./provider-keys.ts";
import {
  NewProviderKeyRequest,
  PROVIDER_KEY_EXAMPLE,
  ProviderKeyRecord,
  toProviderKeyRecord,
} from "./api-record.ts";

export interface ProviderKeyRouteDeps {
  readonly db: Db;
  readonly providerKeys: ProviderKeys;
  /** Called in the transaction of the change. */
  readonly onProviderKeyChange?: (tx: Tx, change: ProviderKeyChange) => Promise<void>;
}

export interface ProviderKeyChange {
  readonly kind: "provider_key.added" | "provider_key.deleted";
  readonly key: ProviderKey;
  readonly actor: { readonly type: "key" | "person"; readonly id: string };
  readonly clientIp: string;
  readonly now: number;
}

type OnProviderKeyChange = NonNullable<ProviderKeyRouteDeps["onProviderKeyChange"]>;

export function providerKeyRoutes(deps: ProviderKeyRouteDeps): readonly Route[] {
  const { db, providerKeys } = deps;
  const onChange: OnProviderKeyChange = deps.onProviderKeyChange ?? (async () => {});
  return [addRoute(providerKeys, onChange), listRoute(db), deleteRoute(providerKeys, onChange)];
}

function addRoute(providerKeys: ProviderKeys, onChange: OnProviderKeyChange): Route {
  // The result is only stored here and used in the transaction, so that a repeated request gets its first response whatever
  // the provider says now.
  const checkResults = new WeakMap<Request, KeyCheckResult>();
  return keyWriteRoute({
    method: "POST",
    path: "/v1/provider-keys",
    id: "addProviderKey",
    scope: "provider_keys:write",
    tag: "Provider keys",
    summary: "Add a provider key",
    description:
      "Calls to the provider's models are then billed to your own account at the provider and cost no credits. The key is verified at the provider first, for up to five seconds; a rejected key is not stored. In an unclaimed account, a key without a limit adds it for the whole account; any other key, and any key of a claimed account, for its own calls alone. People add keys for the whole account in the console. If there are several keys for a provider, the newest is used: to rotate a key, add the new one, then delete the old one.",
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
    faults: ["conflict"],
    before: async ({ body, request }) => {
      checkResults.set(request, await providerKeys.check(body.provider, secret(body.api_key)));
    },
    run: async (tx, { caller, body, request, clientIp, now }) => {
      const newKey = {
        provider: body.provider,
        apiKey: secret(body.api_key),
        name: body.name ?? null,
        keyId: (await addsForItself(tx, caller, now)) ? caller.keyId : null,
        checkResult: checkResults.get(request) ?? UNCHECKED,
      };
      const key = await providerKeys.add(tx, caller.accountId, newKey, now);
      const actor = { type: "key", id: caller.keyId } as const;
      await onChange(tx, { kind: "provider_key.added", key, actor, clientIp, now });
      return { status: 201, body: toProviderKeyRecord(key) };
    },
  });
}

/** In a claimed account, only people add provider keys that receive the prompts of other keys. */
async function addsForItself(tx: Tx, { accountId, keyId }: Caller, now: number): Promise<boolean> {
  if (await isRestricted(tx, keyId, now)) return true;
  const account = await tx.get("select claimed_at from account where id = ?", [accountId]);
  return (account?.["claimed_at"] ?? null) !== null;
}

/** Provider keys that others use are beyond a key with a spending limit. */
async function isRestricted(tx: Tx, keyId: string, now: number): Promise<boolean> {
  const key = await findLiveKey(tx, keyId, now);
  return key !== undefined && key.hasLimit;
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

function deleteRoute(providerKeys: ProviderKeys, onChange: OnProviderKeyChange): Route {
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
    params: z.object({
      id: z
        .string()
        .meta({ description: "The provider key's id.", example: PROVIDER_KEY_EXAMPLE.id }),
    }),
    responses: {
      200: {
        description: "The record of the deleted key.",
        schema: ProviderKeyRecord,
        example: { ...PROVIDER_KEY_EXAMPLE, status: "deleted" },
      },
    },
    faults: ["forbidden", "not_found"],
    run: async (tx, { caller, params, clientIp, now }) => {
      const before = await lockProviderKey(tx, caller.accountId, params.id);
      if (before.keyId !== caller.keyId && (await isRestricted(tx, caller.keyId, now)))
        throw new Fault("forbidden", "provider key of others", {
          message:
            "A key with a spending limit deletes only the provider keys that it added. Use a key without a limit, or ask the owner of the account.",
          param: "id",
          next: [{ method: "GET", url: "/v1/provider-keys", why: "List the provider keys." }],
        });
      const key = await providerKeys.remove(tx, caller.accountId, params.id, now);
      const actor = { type: "key", id: caller.keyId } as const;
      if (before.status !== "deleted")
        await onChange(tx, { kind: "provider_key.deleted", key, actor, clientIp, now });
      return { status: 200, body: toProviderKeyRecord(key) };
    },
  });
}
