// The gateway's accounts at the providers: which ones are configured, their base URLs and credentials. The operator's own
// providers and the in-process simulator are added here.

import { WIRE_TRAITS } from "@postern/wires";
import { type Secret, secret } from "../../base/crypto/secret.ts";
import type { Catalog, CatalogCredential } from "../../models/catalog.ts";
import { GATEWAY_CREDENTIAL, type OperatorProvider } from "../../models/models-file.ts";
import type { Authorizer } from "./authorizer.ts";
import { providerBaseUrl, authorizerFor } from "./cloud-accounts.ts";
import type { ProviderSetting } from "./provider-setting.ts";
import { defineProvider, type Provider, PROVIDERS, type UpstreamWire } from "./providers.ts";

/** How to call a provider: where it is, and on whose account. */
export interface Credential {
  readonly provider: Provider;
  readonly baseUrl: string;
  readonly apiKey: Secret | undefined;
  /** Names the credential in circuits and records without revealing it. */
  readonly label: string;
  /** The share of accounts that use this key first, among the gateway's keys at this provider; 0 for a spare. */
  readonly weight?: number;
  /** The caller's own provider key: the provider bills the caller. */
  readonly byok: boolean;
  /** The owner of the caller's provider key allows the provider to store requests and replies. */
  readonly allowStore?: boolean;
  /** On the gateway's account: whether fields and tools that the gateway does not know are sent. */
  readonly allowsUnknown?: boolean;
  /** Signs each request, for providers that take no key in a header. */
  readonly authorizer?: Authorizer;
  /** Replies within this process: the bundled simulator. */
  readonly inProcess?: (request: Request) => Promise<Response>;
}

export interface ProviderAccountsDeps {
  readonly settings: Readonly<Record<string, ProviderSetting>>;
  /** The providers and keys in the current models file. */
  readonly catalog: () => Pick<Catalog, "providers" | "credentials">;
  /** Reads the environment variable that an operator's provider names as `api_key_env`. */
  readonly readKeyVariable: (variable: string) => string | undefined;
  /** The in-process simulator, if enabled. */
  readonly simulator: ((request: Request) => Promise<Response>) | undefined;
  /** The providers that get fields and tools that the gateway does not know. */
  readonly allowUnknownFields: ReadonlySet<string>;
  readonly now: () => number;
}

export interface ProviderAccount {
  readonly provider: Provider;
  /** The gateway's own; empty if it has no account there. */
  readonly credentials: readonly Credential[];
  readonly baseUrl: string;
  /** Replies within this process: the bundled simulator. */
  readonly inProcess?: Credential["inProcess"] | undefined;
}

export interface ProviderAccounts {
  readonly accountAt: (providerId: string) => ProviderAccount | undefined;
  /** True if the gateway has an account at this provider. */
  readonly isAvailable: (providerId: string) => boolean;
}

const SIMULATOR_URL = "http://simulator.invalid";

export function createProviderAccounts(deps: ProviderAccountsDeps): ProviderAccounts {
  const accounts = new Map<string, ProviderAccount>();
  for (const provider of PROVIDERS) {
    const account = accountFor(withTimeouts(provider, deps.settings[provider.id]), deps);
    if (account !== undefined) accounts.set(provider.id, account);
  }
  const accountAt = (id: string): ProviderAccount | undefined => {
    const { providers, credentials } = deps.catalog();
    const declared = providers.find((provider) => provider.id === id);
    const account = accounts.get(id) ?? (declared && operatorAccount(declared, deps));
    const further = credentials.filter(({ provider }) => provider === id);
    return account === undefined || further.length === 0
      ? account
      : withFurtherKeys(account, further, deps);
  };
  return { accountAt, isAvailable: (id) => (accountAt(id)?.credentials.length ?? 0) > 0 };
}

/** Without the keys whose environment variable is not set. */
function withFurtherKeys(
  account: ProviderAccount,
  further: readonly CatalogCredential[],
  { readKeyVariable, allowUnknownFields }: ProviderAccountsDeps,
): ProviderAccount {
  const { provider, baseUrl, inProcess } = account;
  const allowsUnknown = provider.id === "sim" || allowUnknownFields.has(provider.id);
  const credentials = further.flatMap(({ name: label, weight, ...source }): Credential[] => {
    // Vertex AI takes no API keys.
    if (provider.cloudAuth === "google") return [];
    const rawKey =
      source.keyVariable === undefined ? undefined : readKeyVariable(source.keyVariable);
    const apiKey = source.apiKey ?? (rawKey === undefined ? undefined : secret(rawKey));
    if (apiKey === undefined) return [];
    const credential = { provider, baseUrl, apiKey, label, weight, byok: false, allowsUnknown };
    return [inProcess === undefined ? credential : { ...credential, inProcess }];
  });
  // A server that needs a key would refuse the calls without one.
  const withKeys = account.credentials.filter(
    ({ apiKey, authorizer }) => apiKey !== undefined || authorizer !== undefined,
  );
  return credentials.length === 0
    ? account
    : { ...account, credentials: [...withKeys, ...credentials] };
}

/** As the operator's settings have it. */
function withTimeouts(provider: Provider, setting: ProviderSetting | undefined): Provider {
  return setting?.timeouts === undefined ? provider : { ...provider, timeouts: setting.timeouts };
}

function accountFor(provider: Provider, deps: ProviderAccountsDeps): ProviderAccount | undefined {
  const setting = deps.settings[provider.id];
  const baseUrl = providerBaseUrl(provider, setting);
  if (provider.id === "sim" && setting === undefined) {
    if (deps.simulator === undefined) return undefined;
    const credential = {
      provider,
      baseUrl: SIMULATOR_URL,
      apiKey: undefined,
      label: GATEWAY_CREDENTIAL,
      byok: false,
      allowsUnknown: true,
      inProcess: deps.simulator,
    };
    const inProcess = deps.simulator;
    return { provider, credentials: [credential], baseUrl: SIMULATOR_URL, inProcess };
  }
  if (baseUrl === "") return undefined;
  const isKeyless = provider.isLocal || provider.id === "sim";
  const authorizer = setting === undefined ? undefined : authorizerFor(provider, setting, deps.now);
  const isEnabled =
    setting?.apiKey !== undefined ||
    authorizer !== undefined ||
    (isKeyless && setting?.baseUrl !== undefined);
  const credential = {
    provider,
    baseUrl,
    apiKey: setting?.apiKey,
    label: GATEWAY_CREDENTIAL,
    byok: false,
    // The simulator stores nothing.
    allowsUnknown: provider.id === "sim" || deps.allowUnknownFields.has(provider.id),
    ...(authorizer === undefined ? {} : { authorizer }),
  };
  return { provider, credentials: isEnabled ? [credential] : [], baseUrl };
}

const WIRE_PATHS: Readonly<Record<string, Partial<Record<UpstreamWire, string>>>> = {
  chat: { chat: "/chat/completions" },
  responses: { responses: "/responses" },
  messages: { messages: "/v1/messages", count_tokens: "/v1/messages/count_tokens" },
  embeddings: { embeddings: "/embeddings" },
  images: { images: "/images/generations" },
  image_edits: { image_edits: "/images/edits" },
  speech: { speech: "/audio/speech" },
  transcriptions: { transcriptions: "/audio/transcriptions" },
  translations: { translations: "/audio/translations" },
  rerank: { rerank: "/rerank" },
  moderations: { moderations: "/moderations" },
  decisions: { decisions: "/decisions" },
  completions: { completions: "/completions" },
  gemini: { gemini: "" },
  converse: { converse: "" },
};

const MESSAGES_PATHS_WITHOUT_VERSION = {
  messages: "/messages",
  count_tokens: "/messages/count_tokens",
};

function operatorAccount(declared: OperatorProvider, deps: ProviderAccountsDeps): ProviderAccount {
  const rawKey =
    declared.api_key_env === undefined ? undefined : deps.readKeyVariable(declared.api_key_env);
  const baseUrl = declared.base_url.replace(/(?<!\/)\/+$/, "");
  // A base URL that ends with the API version must not get it again from Anthropic's paths.
  const paths: typeof WIRE_PATHS = baseUrl.endsWith("/v1")
    ? { ...WIRE_PATHS, messages: MESSAGES_PATHS_WITHOUT_VERSION }
    : WIRE_PATHS;
  const provider = defineProvider({
    id: declared.id,
    name: declared.id,
    envPrefix: "",
    baseUrl: declared.base_url,
    paths: Object.assign({}, ...declared.wires.map((wire) => paths[wire] ?? {})),
    auth: declared.wires.every((wire) => WIRE_TRAITS[wire].keyHeader === "x-api-key")
      ? "x-api-key"
      : "bearer",
    stopsBillingOnAbort: declared.stops_billing_on_abort,
    stopsWholeReplies: declared.stops_billing_on_abort,
    imageTokensMax: 50_000,
    timeouts: {
      requestSeconds: declared.request_timeout_seconds,
      streamSeconds: declared.stream_timeout_seconds,
    },
  });
  const apiKey = rawKey === undefined ? undefined : secret(rawKey);
  const allowsUnknown = deps.allowUnknownFields.has(declared.id);
  const isReady = declared.api_key_env === undefined || apiKey !== undefined;
  return {
    provider,
    credentials: isReady
      ? [{ provider, baseUrl, apiKey, label: GATEWAY_CREDENTIAL, byok: false, allowsUnknown }]
      : [],
    baseUrl,
  };
}
