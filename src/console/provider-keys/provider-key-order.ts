// Which provider key is used when there are several of one provider.

import type { ProviderKey } from "../../provider-keys/provider-keys.ts";

/** The newer key that all API keys of this one use instead. */
export function newerReplacement(
  key: ProviderKey,
  live: readonly ProviderKey[],
): ProviderKey | undefined {
  const newer = live.slice(
    0,
    live.findIndex(({ id }) => id === key.id),
  );
  return newer.find(({ provider, apiKeyIds }) => {
    if (provider !== key.provider) return false;
    if (key.apiKeyIds === null) return apiKeyIds === null;
    return key.apiKeyIds.every((id) => apiKeyIds?.includes(id) === true);
  });
}

/** What calls use after the key is deleted. */
export function fallbackNote(key: ProviderKey, live: readonly ProviderKey[]): string {
  const replacement = newerReplacement(key, live);
  if (replacement !== undefined)
    return `Calls to ${key.provider} keep using the key that ends in ${replacement.last4}.`;
  const next = live.find(
    ({ id, provider, apiKeyIds }) =>
      id !== key.id &&
      provider === key.provider &&
      (apiKeyIds === null || key.apiKeyIds?.every((user) => apiKeyIds.includes(user))),
  );
  if (next !== undefined)
    return `Calls to ${key.provider} will use the key that ends in ${next.last4}.`;
  return `Calls to ${key.provider} will use the gateway's account, if it has one, and cost credits.`;
}
