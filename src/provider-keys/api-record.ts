// What a provider key is asked for with, how it is shown, and one example for the documents.

import { z } from "zod";
import { UNSAFE_TEXT_MESSAGE, isSafeText } from "../base/safe-text.ts";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import { type ProviderKey, PROVIDER_KEY_STATUSES } from "./provider-keys.ts";

export const NAME_MAX = 100;
const PROVIDER_MAX = 100;
const API_KEY_MIN = 16;
export const API_KEY_MAX = 2_048;

/** The form of this gateway's own keys, which must not be sent to a provider by mistake. */
const GATEWAY_KEY = /-rt-[0-9A-Za-z]{49}$/;

export const NewProviderKeyRequest = z
  .strictObject({
    provider: z
      .string()
      .min(1, "must not be empty")
      .max(PROVIDER_MAX, `must have ${PROVIDER_MAX} characters or fewer`)
      .meta({
        description:
          "The provider's id, the part of its models' ids before the slash. A wrong one is answered with the list of those that exist.",
      }),
    api_key: z
      .string()
      .min(API_KEY_MIN, `must have ${API_KEY_MIN} characters or more`)
      .max(API_KEY_MAX, `must have ${API_KEY_MAX} characters or fewer`)
      .regex(
        /^[\x21-\x7e]+$/,
        "must be printable ASCII without spaces or line breaks, just as the provider gave it",
      )
      .refine(
        (key) => !GATEWAY_KEY.test(key),
        "is a key of this gateway; send the one that the provider gave you",
      )
      .meta({ description: "The raw key. It is kept sealed and never shown again." }),
    name: z
      .string()
      .trim()
      .min(1, "must not be empty; send null for no name")
      .max(NAME_MAX, `must have ${NAME_MAX} characters or fewer`)
      .refine(isSafeText, UNSAFE_TEXT_MESSAGE)
      .nullable()
      .optional(),
  })
  .meta({ id: "NewProviderKeyRequest" });

export const ProviderKeyRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `pk_`." }),
    object: z.literal("provider_key"),
    provider: z.string().meta({ description: "The provider's id, as in its models' ids." }),
    name: z.string().nullable(),
    last4: z
      .string()
      .meta({ description: "The key's last four characters; the rest is never shown." }),
    created_at: z.string(),
    last_used_at: z.string().nullable().meta({ description: "Within a minute of the last use." }),
    status: z.enum(PROVIDER_KEY_STATUSES).meta({
      description:
        "`active`: the provider took the key when it was added. `unchecked`: it could not be asked, and the key is used all the same. `deleted`: it is used no more.",
    }),
  })
  .meta({ id: "ProviderKey" });

export const PROVIDER_KEY_EXAMPLE = {
  id: "pk_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "provider_key",
  provider: "openai",
  name: "team account",
  last4: "9fQz",
  created_at: "2026-11-21T09:30:00.000Z",
  last_used_at: null,
  status: "active",
};

export function toProviderKeyRecord(key: ProviderKey): z.infer<typeof ProviderKeyRecord> {
  return {
    id: key.id,
    object: "provider_key",
    provider: key.provider,
    name: key.name,
    last4: key.last4,
    created_at: timestamp(key.createdAt),
    last_used_at: timestampOrNull(key.lastUsedAt),
    status: key.status,
  };
}
