// The operator's settings of one provider.

import type { Secret } from "../../base/crypto/secret.ts";

/** Where they are shorter than those of the gateway. */
export interface ProviderTimeouts {
  readonly requestSeconds?: number | undefined;
  readonly streamSeconds?: number | undefined;
}

export interface ProviderSetting {
  readonly apiKey?: Secret;
  readonly baseUrl?: string;
  /** The row's further settings by their names: plain ones, and those that must not be printed. */
  readonly plain?: Readonly<Record<string, string>>;
  readonly timeouts?: ProviderTimeouts;
  readonly secrets?: Readonly<Record<string, Secret>>;
}
