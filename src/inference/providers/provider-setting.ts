// The operator's settings of one provider.

import type { Secret } from "../../base/crypto/secret.ts";

export interface ProviderSetting {
  readonly apiKey?: Secret;
  readonly baseUrl?: string;
  /** The row's further settings by their names: plain ones, and those that must not be printed. */
  readonly plain?: Readonly<Record<string, string>>;
  readonly secrets?: Readonly<Record<string, Secret>>;
}
