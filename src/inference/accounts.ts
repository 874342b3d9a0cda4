// The gateway's accounts at the providers: which rows are switched on, where they are, and by whose key. The operator's
// own servers join the table here, and so does the simulator of a gateway that has no provider.

import { secret } from "../base/secret.ts";
import type { OperatorProvider } from "../models/operator-file.ts";
import type { ProviderSetting } from "../provider-settings.ts";
import { addressOf, authorizeFor } from "./cloud-accounts.ts";
import { type Provider, PROVIDERS, type UpstreamWire } from "./providers.ts";
import type { Credential } from "./upstream.ts";

export interface AccountsParts {
  readonly settings: Readonly<Record<string, ProviderSetting>>;
  /** The operator's own providers, as their file says now. */
  readonly operatorProviders: () => readonly OperatorProvider[];
  /** Reads the variable that an operator's provider names for its key. */
  readonly keyNamed: (variable: string) => string | undefined;
  /** Answers for the simulator inside this process, where that is on. */
  readonly simulator: ((request: Request) => Promise<Response>) | undefined;
  readonly now: () => number;
}

export interface Place {
  readonly provider: Provider;
  /** The gateway's own account there. */
  readonly own: Credential | undefined;
  readonly baseUrl: string;
}

export interface Accounts {
  readonly placeOf: (providerId: string) => Place | undefined;
  /** Whether models of this provider can be called on the gateway's own account. */
  readonly available: (providerId: string) => boolean;
}

const SIMULATOR_URL = "http://simulator.invalid";

export function createAccounts(parts: AccountsParts): Accounts {
  const places = new Map<string, Place>();
  for (const provider of PROVIDERS) {
    const place = placeFor(provider, parts);
    if (place !== undefined) places.set(provider.id, place);
  }
  const placeOf = (id: string): Place | undefined => {
    const known = places.get(id);
    if (known !== undefined) return known;
    const declared = parts.operatorProviders().find((one) => one.id === id);
    return declared === undefined ? undefined : declaredPlace(declared, parts);
  };
  return { placeOf, available: (id) => placeOf(id)?.own !== undefined };
}

function placeFor(provider: Provider, parts: AccountsParts): Place | undefined {
  const setting = parts.settings[provider.id];
  const baseUrl = addressOf(provider, setting);
  if (provider.id === "sim" && setting === undefined) {
    if (parts.simulator === undefined) return undefined;
    const own = {
      provider,
      baseUrl: SIMULATOR_URL,
      apiKey: undefined,
      label: "gateway",
      byok: false,
      inProcess: parts.simulator,
    };
    return { provider, own, baseUrl: SIMULATOR_URL };
  }
  if (baseUrl === "") return undefined;
  const keyless = provider.local || provider.id === "sim";
  const authorize = setting === undefined ? undefined : authorizeFor(provider, setting, parts.now);
  const on =
    setting?.apiKey !== undefined ||
    authorize !== undefined ||
    (keyless && setting?.baseUrl !== undefined);
  const own = {
    provider,
    baseUrl,
    apiKey: setting?.apiKey,
    label: "gateway",
    byok: false,
    ...(authorize === undefined ? {} : { authorize }),
  };
  return { provider, own: on ? own : undefined, baseUrl };
}

const PATHS: Readonly<Record<string, Partial<Record<UpstreamWire, string>>>> = {
  chat: { chat: "/chat/completions" },
  responses: { responses: "/responses" },
  messages: { messages: "/v1/messages", count_tokens: "/v1/messages/count_tokens" },
  embeddings: { embeddings: "/embeddings" },
  gemini: { gemini: "" },
  converse: { converse: "" },
};

const VERSIONED_MESSAGES = { messages: "/messages", count_tokens: "/messages/count_tokens" };

function declaredPlace(declared: OperatorProvider, parts: AccountsParts): Place {
  const raw = declared.api_key_env === undefined ? undefined : parts.keyNamed(declared.api_key_env);
  const baseUrl = declared.base_url.replace(/\/+$/, "");
  // An address that serves OpenAI's wires ends with the version, which Anthropic's paths say themselves.
  const paths: typeof PATHS = baseUrl.endsWith("/v1")
    ? { ...PATHS, messages: VERSIONED_MESSAGES }
    : PATHS;
  const provider: Provider = {
    id: declared.id,
    name: declared.id,
    stem: "",
    baseUrl: declared.base_url,
    paths: Object.assign({}, ...declared.wires.map((wire) => paths[wire] ?? {})),
    auth: declared.wires.every((wire) => wire === "messages") ? "x-api-key" : "bearer",
    headers: {},
    stopsBillingOnAbort: declared.stops_billing_on_abort,
    asksForUsage: true,
    endUserField: null,
    outputLimitField: "max_tokens",
    knowsCompletionLimit: false,
    storesReplies: false,
    endsByClosing: false,
    limitsReasoning: true,
    local: false,
    imageTokensMax: 50_000,
  };
  const apiKey = raw === undefined ? undefined : secret(raw);
  const ready = declared.api_key_env === undefined || apiKey !== undefined;
  return {
    provider,
    own: ready ? { provider, baseUrl, apiKey, label: "gateway", byok: false } : undefined,
    baseUrl,
  };
}
