// How a provider key is shown: its public record, and one example for the documents.

import { z } from "zod";
import { timestamp, timestampOrNull } from "../http/record.ts";
import { type ProviderKey, STATUSES } from "./provider-keys.ts";

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
    status: z.enum(STATUSES).meta({
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

export function showProviderKey(key: ProviderKey): z.infer<typeof ProviderKeyRecord> {
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
