// `doctor` on providers: which keys are set, and whether the providers accept them.

import type { ProviderSetting } from "../../inference/providers/provider-setting.ts";
import { type Provider, PROVIDERS } from "../../inference/providers/providers.ts";
import { checkCloudAccount } from "./check-cloud-accounts.ts";
import type { Finding } from "./finding.ts";

const TIMEOUT_MS = 5_000;

export async function checkProviders(
  settings: Readonly<Record<string, ProviderSetting>>,
  development: boolean,
): Promise<readonly Finding[]> {
  const set = PROVIDERS.flatMap((provider) => {
    const setting = settings[provider.id];
    return setting === undefined ? [] : [checkProvider(provider, setting)];
  });
  if (set.length > 0) return Promise.all(set);
  return [
    {
      status: development ? "warn" : "fail",
      check: "providers",
      message: `no provider key is set: ${development ? "only simulated models" : "no model"} can be called`,
      hint: "Set OPENAI_API_KEY, ANTHROPIC_API_KEY or another provider key.",
    },
  ];
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
      hint: `Set ${provider.envPrefix}_BASE_URL.`,
    };
  if (setting.apiKey === undefined && !provider.isLocal)
    return {
      status: "warn",
      check,
      message: `${provider.name} has a URL but no key`,
      hint: `Set ${provider.envPrefix}_API_KEY.`,
    };
  try {
    const response = await fetch(modelsUrl(provider, baseUrl), {
      headers: { ...provider.headers, ...authHeaders(provider, setting) },
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    await response.body?.cancel();
    if (response.ok && setting.apiKey !== undefined && (await isModelListPublic(provider, baseUrl)))
      return {
        status: "note",
        check,
        message: `${provider.name} responds; its model list needs no key, so the key was not checked`,
      };
    return findingForStatus(provider, response.status);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      status: "fail",
      check,
      message: `${provider.name} cannot be reached at ${baseUrl}: ${why}`,
      hint: `Check that this machine can reach it, or set ${provider.envPrefix}_BASE_URL.`,
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

function authHeaders(provider: Provider, { apiKey }: ProviderSetting): Record<string, string> {
  if (apiKey === undefined) return {};
  return provider.auth === "bearer"
    ? { authorization: `Bearer ${apiKey.reveal()}` }
    : { [provider.auth]: apiKey.reveal() };
}

function findingForStatus({ id: check, name, envPrefix }: Provider, status: number): Finding {
  if (status < 300) return { status: "ok", check, message: `${name} accepts the key` };
  if (status === 401 || status === 403)
    return {
      status: "fail",
      check,
      message: `${name} rejects the key (${status})`,
      hint: `Set ${envPrefix}_API_KEY to a valid key.`,
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
    hint: "Try again later; the provider may have an outage.",
  };
}
