// `doctor` on providers: which keys are set, and whether the providers accept them.

import type { Secret } from "../../base/crypto/secret.ts";
import type { Config } from "../../config/config.ts";
import { authorizerFor, providerBaseUrl } from "../../inference/providers/cloud-accounts.ts";
import {
  createProviderAccounts,
  type ProviderAccount,
} from "../../inference/providers/credentials.ts";
import type { ProviderSetting } from "../../inference/providers/provider-setting.ts";
import { type Provider, PROVIDERS } from "../../inference/providers/providers.ts";
import type { Catalog, CatalogCredential } from "../../models/catalog.ts";
import type { OperatorProvider } from "../../models/models-file.ts";
import type { Finding } from "./finding.ts";

const TIMEOUT_MS = 5_000;

/** What the models file declares. */
export type DeclaredProviders = Pick<Catalog, "providers" | "credentials">;

type ProvidersConfig = Pick<Config, "providers" | "development" | "readKeyVariable">;

export async function checkProviders(
  config: ProvidersConfig,
  declared: DeclaredProviders,
): Promise<readonly Finding[]> {
  const { providers: settings, development } = config;
  const set = PROVIDERS.flatMap((provider) => {
    const setting = settings[provider.id];
    return setting === undefined ? [] : [checkProvider(provider, setting)];
  });
  const own = [
    ...declared.providers.map((provider) => checkDeclaredProvider(provider, config)),
    ...declared.credentials.map((credential) => checkCredential(credential, declared, config)),
  ];
  if (set.length + own.length > 0) return Promise.all([...set, ...own]);
  return [
    {
      status: development ? "warn" : "fail",
      check: "providers",
      message: "no provider key is set",
      effect: development
        ? "Only simulated models can be called."
        : "No model can be called: every call gets 404 or 503.",
      hint: "Set OPENAI_API_KEY, ANTHROPIC_API_KEY or another provider key.",
    },
  ];
}

/** A provider of the models file has a key that the file names, and may have no model list. */
async function checkDeclaredProvider(
  declared: OperatorProvider,
  { readKeyVariable }: Pick<Config, "readKeyVariable">,
): Promise<Finding> {
  const { id, api_key_env: variable } = declared;
  const apiKey = variable === undefined ? undefined : readKeyVariable(variable);
  if (variable !== undefined && apiKey === undefined)
    return {
      status: "fail",
      check: id,
      message: `${id} of the models file has no key: ${variable} is not set`,
      effect: effectOf(id),
      hint: `Set ${variable}, or remove api_key_env from the provider in POSTERN_MODELS_FILE.`,
    };
  const account = createProviderAccounts({
    settings: {},
    catalog: () => ({ providers: [declared], credentials: [] }),
    readKeyVariable,
    simulator: undefined,
    allowUnknownFields: new Set(),
    now: Date.now,
  }).accountAt(id);
  if (account === undefined) throw new Error(`no account at ${id}`);
  const hints = {
    key: `Set ${variable ?? "api_key_env in POSTERN_MODELS_FILE"} to a valid key.`,
    url: `Check that this machine can reach it, and base_url of ${id} in POSTERN_MODELS_FILE.`,
  };
  return probe(account.provider, {
    baseUrl: account.baseUrl,
    apiKey: account.credentials[0]?.apiKey,
    hints,
  });
}

/** A further key of a provider. */
async function checkCredential(
  { provider: id, name, keyVariable }: CatalogCredential,
  declared: DeclaredProviders,
  { providers: settings, readKeyVariable }: ProvidersConfig,
): Promise<Finding> {
  const account = createProviderAccounts({
    settings,
    catalog: () => declared,
    readKeyVariable,
    simulator: undefined,
    allowUnknownFields: new Set(),
    now: Date.now,
  }).accountAt(id);
  const credential = account?.credentials.find(({ label }) => label === name);
  const check = `${id}/${name}`;
  if (account === undefined || credential === undefined)
    return {
      status: "fail",
      check,
      message: `the key ${name} of ${id} is not used: ${notUsedReason(account, keyVariable)}`,
      effect: `Calls of models at ${id} go to its other keys.`,
      hint: "Correct it, or remove it from `credentials` in POSTERN_MODELS_FILE.",
    };
  const hints = {
    key: `Put a valid key in ${keyVariable ?? "the file that api_key_file names"}.`,
    url: `Check that this machine can reach ${account.baseUrl}.`,
  };
  const { apiKey } = credential;
  const finding = await probe(account.provider, { baseUrl: account.baseUrl, apiKey, hints });
  return { ...finding, check };
}

function notUsedReason(
  account: ProviderAccount | undefined,
  keyVariable: string | undefined,
): string {
  if (account === undefined) return "the provider has no URL";
  return account.provider.cloudAuth === "google"
    ? "the provider takes no API key"
    : `${keyVariable ?? "its file"} is not set`;
}

function effectOf(name: string): string {
  return `Calls of models at ${name} fail or fall back.`;
}

async function checkProvider(provider: Provider, setting: ProviderSetting): Promise<Finding> {
  if (provider.cloudAuth !== undefined) return checkCloudAccount(provider, setting);
  const check = provider.id;
  const baseUrl = setting.baseUrl ?? provider.baseUrl;
  if (baseUrl === "")
    return {
      status: "fail",
      check,
      message: `${provider.name} has no URL`,
      effect: effectOf(provider.name),
      hint: `Set ${provider.envPrefix}_BASE_URL.`,
    };
  if (setting.apiKey === undefined && !provider.isLocal)
    return {
      status: "warn",
      check,
      message: `${provider.name} has a URL but no key`,
      effect: `Only callers with their own key can call models at ${provider.name}.`,
      hint: `Set ${provider.envPrefix}_API_KEY.`,
    };
  const hints = {
    key: `Set ${provider.envPrefix}_API_KEY to a valid key.`,
    url: `Check that this machine can reach it, or set ${provider.envPrefix}_BASE_URL.`,
  };
  return probe(provider, { baseUrl, apiKey: setting.apiKey, hints });
}

interface ProbedAccount {
  readonly baseUrl: string;
  readonly apiKey: Secret | undefined;
  readonly hints: { readonly key: string; readonly url: string };
}

async function probe(provider: Provider, account: ProbedAccount): Promise<Finding> {
  const { baseUrl, apiKey, hints } = account;
  const check = provider.id;
  try {
    const response = await fetch(modelsUrl(provider, baseUrl), {
      headers: { ...provider.headers, ...authHeaders(provider, apiKey) },
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    await response.body?.cancel();
    if (response.ok && apiKey !== undefined && (await isModelListPublic(provider, baseUrl)))
      return {
        status: "note",
        check,
        message: `${provider.name} responds; its model list needs no key, so the key was not checked`,
      };
    return findingForStatus(provider, response.status, account);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      status: "fail",
      check,
      message: `${provider.name} cannot be reached at ${baseUrl}: ${why}`,
      effect: effectOf(provider.name),
      hint: hints.url,
    };
  }
}

async function isModelListPublic(provider: Provider, baseUrl: string): Promise<boolean> {
  const response = await fetch(modelsUrl(provider, baseUrl), {
    headers: provider.headers,
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  await response.body?.cancel();
  return response.ok;
}

// The model list is next to the generation endpoint and takes the key in the same way.
function modelsUrl({ paths }: Provider, baseUrl: string): string {
  const beside = paths.chat ?? paths.messages ?? "";
  return `${baseUrl}${beside.replace(/\/(chat\/completions|messages)$/, "")}/models`;
}

function authHeaders(provider: Provider, apiKey: Secret | undefined): Record<string, string> {
  if (apiKey === undefined) return {};
  return provider.auth === "bearer"
    ? { authorization: `Bearer ${apiKey.reveal()}` }
    : { [provider.auth]: apiKey.reveal() };
}

function findingForStatus(
  { id: check, name }: Provider,
  status: number,
  { apiKey, hints }: ProbedAccount,
): Finding {
  if (status < 300) {
    const message = apiKey === undefined ? `${name} responds` : `${name} accepts the key`;
    return { status: "ok", check, message };
  }
  if (status === 401 || status === 403)
    return {
      status: "fail",
      check,
      message: `${name} rejects the key (${status})`,
      effect: effectOf(name),
      hint: hints.key,
    };
  if (status === 404 || status === 405)
    return {
      status: "note",
      check,
      message: `${name} responds; it has no model list, so the key was not checked`,
    };
  return {
    status: "warn",
    check,
    message: `${name} answered ${status}`,
    effect: effectOf(name),
    hint: "Try again later; the provider may have an outage.",
  };
}

// `doctor` on cloud accounts: whether their settings are complete, and whether a token can be fetched.

async function checkCloudAccount(provider: Provider, setting: ProviderSetting): Promise<Finding> {
  const { id: check, name } = provider;
  const url = providerBaseUrl(provider, setting);
  if (url === "")
    return {
      status: "fail",
      check,
      message: `${name} has no URL: a setting is missing`,
      hint: `Set ${missingSettings(provider, setting)}.`,
    };
  const authorize = authorizerFor(provider, setting, Date.now);
  if (setting.apiKey === undefined && authorize === undefined)
    return {
      status: "warn",
      check,
      message: `${name} has settings but no credentials`,
      hint: "See docs/site/providers.md for the settings it needs.",
    };
  if (provider.cloudAuth !== "google" || authorize === undefined)
    return {
      status: "note",
      check,
      message: `${name} is set up; only a call shows whether it accepts the credentials`,
    };
  try {
    const signed = await authorize.sign({ url, method: "POST", body: "" });
    return signed.kind === "signed"
      ? { status: "ok", check, message: `${name} accepts the service account` }
      : {
          status: "fail",
          check,
          message: `${name} refuses the service account: ${(await signed.response.text()).slice(0, 200)}`,
          hint: `Set ${provider.envPrefix}_CREDENTIALS to a valid key.`,
        };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      status: "fail",
      check,
      message: `${name} returned no token: ${why}`,
      hint: "Check that this machine can reach it.",
    };
  }
}

function missingSettings(
  { envPrefix, baseUrl }: Provider,
  { plain = {} }: ProviderSetting,
): string {
  const placeholders = [...baseUrl.matchAll(/\{([A-Z_]+)\}/g)].map(([, name = ""]) => name);
  return placeholders
    .filter((name) => name !== "HOST" && plain[name] === undefined)
    .map((name) => `${envPrefix}_${name}`)
    .join(" and ");
}
