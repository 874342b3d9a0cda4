// Settings of the gateway's own web search, for models whose provider has none.

import { z } from "zod";
import { type Secret, secret } from "../base/crypto/secret.ts";
import type { Nano } from "../base/money/money.ts";
import {
  SEARCH_BACKENDS,
  type SearchBackendSetting,
} from "../inference/web-search/search-backends.ts";
import { httpUrl, settings, type SettingValues, usdAmount } from "./setting-schemas.ts";

export interface WebSearchConfig extends SearchBackendSetting {
  /** What a search costs the caller. */
  readonly fee: Nano;
  /** What a page costs that the gateway fetches; undefined if it fetches none. */
  readonly fetchFee: Nano | undefined;
}

export const WEB_SEARCH_SETTINGS = settings({
  POSTERN_SEARCH: [
    z
      .enum(SEARCH_BACKENDS, { error: "must be brave, exa, tavily, searxng or simulator" })
      .optional(),
    "",
    "The search API with which the gateway searches the web for models whose provider does not: `brave`, `exa`, `tavily` or `searxng`; in development also `simulator`. See `docs/site/web-search.md`.",
  ],
  POSTERN_SEARCH_API_KEY: [
    z
      .string()
      .regex(
        /^[\x21-\x7e]+$/,
        "contains whitespace or another character that is not valid in a key",
      )
      .optional(),
    "",
    "Your key at the search API.",
  ],
  POSTERN_SEARCH_BASE_URL: [
    httpUrl.optional(),
    "the API's own",
    "The base URL of the search API; required for `searxng`.",
  ],
  POSTERN_SEARCH_USD: [usdAmount, "0.01", "What a search costs the caller, in US dollars."],
  POSTERN_WEB_FETCH: [
    z.enum(["on", "off"], { error: "must be on or off" }).default("on"),
    "on",
    "`off` if the gateway, where it searches, must not fetch web pages for models. `POSTERN_FETCHED_FILES_PER_MINUTE` limits them.",
  ],
  POSTERN_WEB_FETCH_USD: [usdAmount, "0", "What fetching a page costs the caller, in US dollars."],
});

type Environment = SettingValues<typeof WEB_SEARCH_SETTINGS>;

/** As OpenAI and Anthropic charge, see the table of tools in docs/site/models.md. */
const DEFAULT_FEE: Nano = 10_000_000n;

export function webSearchConfigFrom(env: Environment): { readonly webSearch?: WebSearchConfig } {
  const { POSTERN_SEARCH: backend, POSTERN_SEARCH_API_KEY: key } = env;
  if (backend === undefined) return {};
  const apiKey: Secret | undefined = key === undefined ? undefined : secret(key);
  const baseUrl = env.POSTERN_SEARCH_BASE_URL;
  const fee = env.POSTERN_SEARCH_USD ?? DEFAULT_FEE;
  const fetchFee = env.POSTERN_WEB_FETCH === "on" ? (env.POSTERN_WEB_FETCH_USD ?? 0n) : undefined;
  return { webSearch: { backend, apiKey, baseUrl, fee, fetchFee } };
}

export function webSearchConfigErrors({
  webSearch,
  development,
}: {
  readonly webSearch?: WebSearchConfig;
  readonly development: boolean;
}): readonly string[] {
  if (webSearch === undefined) return [];
  const { backend, apiKey, baseUrl } = webSearch;
  if (backend === "simulator")
    return development ? [] : ["POSTERN_SEARCH must not be simulator outside development"];
  if (backend === "searxng")
    return baseUrl === undefined ? ["POSTERN_SEARCH_BASE_URL must be set for searxng"] : [];
  return apiKey === undefined ? [`POSTERN_SEARCH_API_KEY must be set for ${backend}`] : [];
}
