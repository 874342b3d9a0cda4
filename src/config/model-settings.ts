// Settings of models, their prices and what is sent to their providers.

import { z } from "zod";
import { commaSeparated, settings, type SettingValues } from "./setting-schemas.ts";

export interface ModelConfig {
  readonly modelsFile?: string;
  readonly pricesFile?: string;
  readonly allowUnknownFields: readonly string[];
  readonly sendsAnthropicUserId: boolean;
}

export const MODEL_SETTINGS = settings({
  POSTERN_MODELS_FILE: [
    z.string().optional(),
    "",
    "A file with your own models and prices, see `docs/site/models.md`.",
  ],
  POSTERN_PRICES_FILE: [
    z.string().optional(),
    "",
    "A table of list prices to use instead of the built-in one, see `postern admin prices`.",
  ],
  POSTERN_ALLOW_UNKNOWN_FIELDS: [
    z.string().default("").transform(commaSeparated),
    "",
    "Providers, separated by commas. Requests on the gateway's accounts there may have fields and tools that Postern does not know, see `docs/site/providers.md`.",
  ],
  POSTERN_ANTHROPIC_USER_ID: [
    z.stringbool().default(false),
    "false",
    "`true`: requests of the Messages API that are passed through and have no `metadata.user_id` get a pseudonym of the account there, so that Anthropic can tell your users apart.",
  ],
});

export function modelConfigFrom(env: SettingValues<typeof MODEL_SETTINGS>): ModelConfig {
  const { POSTERN_MODELS_FILE: modelsFile, POSTERN_PRICES_FILE: pricesFile } = env;
  return {
    ...(modelsFile === undefined ? {} : { modelsFile }),
    ...(pricesFile === undefined ? {} : { pricesFile }),
    allowUnknownFields: env.POSTERN_ALLOW_UNKNOWN_FIELDS,
    sendsAnthropicUserId: env.POSTERN_ANTHROPIC_USER_ID,
  };
}
