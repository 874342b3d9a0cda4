// /v1/provider-keys: the HTTP face of the provider-keys room.

import { z } from "zod";
import { secret } from "../base/secret.ts";
import { cursorOf, listOf, PageQuery } from "../http/record.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import type { Db, Tx } from "../store/db.ts";
import { type KeyVerdict, UNCHECKED } from "./check.ts";
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
  showProviderKey,
} from "./record.ts";

export interface ProviderKeyRouteParts {
  readonly db: Db;
  readonly providerKeys: ProviderKeys;
  /** Told in the transaction of the change. */
  readonly onProviderKeyChange?: (tx: Tx, change: ProviderKeyChange) => Promise<void>;
}

export interface ProviderKeyChange {
  readonly kind: "provider_key.added" | "provider_key.deleted";
  readonly key: ProviderKey;
  /** Whoever changed it: a key's id, or a person's. */
  readonly by: { readonly type: "key" | "person"; readonly id: string };
  readonly address: string;
  readonly now: number;
}

type Tell = NonNullable<ProviderKeyRouteParts["onProviderKeyChange"]>;

export function providerKeyRoutes(parts: ProviderKeyRouteParts): readonly Route[] {
  const { db, providerKeys } = parts;
  const tell: Tell = parts.onProviderKeyChange ?? (async () => {});
  return [addRoute(providerKeys, tell), listRoute(db), deleteRoute(providerKeys, tell)];
}

function addRoute(providerKeys: ProviderKeys, tell: Tell): Route {
  // The check only notes its verdict: a repeated request must get its first answer, whatever the provider says by then.
  const verdicts = new WeakMap<Request, KeyVerdict>();
  return keyWriteRoute({
    method: "POST",
    path: "/v1/provider-keys",
    id: "addProviderKey",
    tag: "Provider keys",
    summary: "Bring your own key at a provider",
    description:
      "Calls to that provider's models then go on your own account there and cost no credits. The provider is asked about the key first, for at most five seconds; a key that it refuses is not stored. Where several keys for one provider exist, the newest is used: to change a key without a gap, add the new one, then delete the old one.",
    dialect: "openai",
    body: NewProviderKeyRequest,
    example: { provider: "openai", api_key: "<YOUR_OPENAI_API_KEY>", name: "team account" },
    answers: {
      201: {
        description: "The record. The raw key is in no answer.",
        schema: ProviderKeyRecord,
        example: PROVIDER_KEY_EXAMPLE,
      },
    },
    faults: ["conflict"],
    before: async ({ body, request }) => {
      verdicts.set(request, await providerKeys.check(body.provider, secret(body.api_key)));
    },
    run: async (tx, { caller, body, request, address, now }) => {
      const fresh = {
        provider: body.provider,
        apiKey: secret(body.api_key),
        name: body.name ?? null,
        verdict: verdicts.get(request) ?? UNCHECKED,
      };
      const key = await providerKeys.add(tx, caller.accountId, fresh, now);
      const by = { type: "key", id: caller.keyId } as const;
      await tell(tx, { kind: "provider_key.added", key, by, address, now });
      return { status: 201, body: showProviderKey(key) };
    },
  });
}

function listRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/provider-keys",
    id: "listProviderKeys",
    tag: "Provider keys",
    summary: "List your provider keys",
    description: "Newest first, deleted ones included.",
    dialect: "openai",
    query: z.strictObject({ ...PageQuery, cursor: cursorOf("pk") }),
    answers: {
      200: {
        description: "A page of provider keys.",
        schema: listOf(ProviderKeyRecord, "ProviderKeyList"),
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
      return { status: 200, body: { ...page, data: page.data.map(showProviderKey) } };
    },
  });
}

function deleteRoute(providerKeys: ProviderKeys, tell: Tell): Route {
  return keyWriteRoute({
    method: "DELETE",
    path: "/v1/provider-keys/{id}",
    id: "deleteProviderKey",
    tag: "Provider keys",
    summary: "Delete a provider key",
    description:
      "The sealed key is destroyed; its record stays, so that past usage can be told apart. Calls that start within the next five seconds may still use it where the gateway runs in several processes. Repeating the call gives the same answer. Afterwards calls go on your next newest key for that provider, or, where there is none, on the gateway's account for credits.",
    dialect: "openai",
    params: z.object({
      id: z
        .string()
        .meta({ description: "The provider key's id.", example: PROVIDER_KEY_EXAMPLE.id }),
    }),
    answers: {
      200: {
        description: "The deleted key's record.",
        schema: ProviderKeyRecord,
        example: { ...PROVIDER_KEY_EXAMPLE, status: "deleted" },
      },
    },
    faults: ["not_found"],
    run: async (tx, { caller, params, address, now }) => {
      const before = await lockProviderKey(tx, caller.accountId, params.id);
      const key = await providerKeys.remove(tx, caller.accountId, params.id, now);
      const by = { type: "key", id: caller.keyId } as const;
      if (before.status !== "deleted")
        await tell(tx, { kind: "provider_key.deleted", key, by, address, now });
      return { status: 200, body: showProviderKey(key) };
    },
  });
}
