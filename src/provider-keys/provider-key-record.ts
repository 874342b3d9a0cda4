// API schemas of provider keys: the request to add one, and the record.

import { z } from "zod";
import { UNSAFE_TEXT_MESSAGE, isSafeText } from "../base/text/safe-text.ts";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import {
  type ProviderKey,
  PROVIDER_KEY_STATUSES,
  type ProviderKeySettings,
} from "./provider-keys.ts";

export const NAME_MAX = 100;
const PROVIDER_MAX = 100;
const API_KEYS_MAX = 100;
const API_KEY_MIN = 16;
export const API_KEY_MAX = 2_048;

/** The format of this gateway's own keys, which must not be sent to a provider by mistake. */
const GATEWAY_KEY = /-rt-[0-9A-Za-z]{49}$/;

const SETTINGS = z
  .strictObject({
    name: z
      .string()
      .trim()
      .min(1, "must not be empty. Send null for no name")
      .max(NAME_MAX, `must have at most ${NAME_MAX} characters`)
      .refine(isSafeText, UNSAFE_TEXT_MESSAGE)
      .nullable(),
    api_key_ids: z
      .array(z.string())
      .min(1, "must name at least one API key. Delete the provider key to stop its use")
      .max(API_KEYS_MAX, `must name at most ${API_KEYS_MAX} API keys`)
      .nullable()
      .meta({
        description:
          "The API keys whose calls use the provider key; null: all keys of the account.",
      }),
    allow_store: z.boolean().meta({
      description:
        "Whether the provider may store requests and replies: `store`, `conversation`, `background` and `deferred` of a request. Otherwise `store` is sent as `false`.",
    }),
  })
  .partial();

export const ChangeProviderKeyRequest = SETTINGS.meta({ id: "ProviderKeySettings" });

export const NewProviderKeyRequest = z
  .strictObject({
    provider: z
      .string()
      .min(1, "must not be empty")
      .max(PROVIDER_MAX, `must have at most ${PROVIDER_MAX} characters`)
      .meta({
        description:
          "The provider's id: the part of a model id before the slash. An unknown id is rejected with the list of supported ones.",
      }),
    api_key: z
      .string()
      .min(API_KEY_MIN, `must have at least ${API_KEY_MIN} characters`)
      .max(API_KEY_MAX, `must have at most ${API_KEY_MAX} characters`)
      .regex(/^[\x21-\x7e]+$/, "must be printable ASCII without spaces or line breaks")
      .refine(
        (key) => !GATEWAY_KEY.test(key),
        "is a key of this gateway. Send the key that the provider issued",
      )
      .meta({ description: "The raw key. It is stored encrypted and never shown again." }),
    ...SETTINGS.shape,
  })
  .meta({ id: "NewProviderKeyRequest" });

export const ProviderKeyRecord = z
  .object({
    id: z.string().meta({ description: "Starts with `pk_`." }),
    object: z.literal("provider_key"),
    provider: z
      .string()
      .meta({ description: "The provider's id: the part of a model id before the slash." }),
    name: z.string().nullable(),
    last4: z
      .string()
      .meta({ description: "The last four characters of the key. The rest is never shown." }),
    api_key_ids: z.array(z.string()).nullable().meta({
      description: "The API keys whose calls use it; null: all keys of the account.",
    }),
    allow_store: z.boolean().meta({
      description: "Whether the provider may store requests and replies of calls with this key.",
    }),
    created_at: z.string(),
    last_used_at: z.string().nullable().meta({ description: "Accurate to one minute." }),
    status: z.enum(PROVIDER_KEY_STATUSES).meta({
      description:
        "`active`: the provider accepted the key when it was added. `unchecked`: the key could not be verified, and is used anyway. `deleted`: the key is no longer used.",
    }),
  })
  .meta({ id: "ProviderKey" });

export const PROVIDER_KEY_EXAMPLE = {
  id: "pk_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "provider_key",
  provider: "openai",
  name: "team account",
  last4: "9fQz",
  api_key_ids: ["key_01kah5t0bgv2z7h8n4c3x9m1qr"],
  allow_store: false,
  created_at: "2026-11-21T09:30:00.000Z",
  last_used_at: null,
  status: "active",
};

/** The settings that a request sets. */
export function toSettings({
  name,
  api_key_ids: apiKeyIds,
  allow_store: allowStore,
}: z.infer<typeof ChangeProviderKeyRequest>): ProviderKeySettings {
  return {
    ...(name !== undefined && { name }),
    ...(apiKeyIds !== undefined && { apiKeyIds }),
    ...(allowStore !== undefined && { allowStore }),
  };
}

export function toProviderKeyRecord(key: ProviderKey): z.infer<typeof ProviderKeyRecord> {
  return {
    id: key.id,
    object: "provider_key",
    provider: key.provider,
    name: key.name,
    last4: key.last4,
    api_key_ids: key.apiKeyIds && [...key.apiKeyIds],
    allow_store: key.allowStore,
    created_at: timestamp(key.createdAt),
    last_used_at: timestampOrNull(key.lastUsedAt),
    status: key.status,
  };
}
