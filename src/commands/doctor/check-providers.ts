// What `doctor` says about providers: which keys are set, and whether they are answered.

import type { ProviderSetting } from "../../inference/providers/provider-setting.ts";
import { type Provider, PROVIDERS } from "../../inference/providers/providers.ts";
import type { Finding } from "./finding.ts";
import { checkCloudAccount } from "./check-cloud-accounts.ts";

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
      message: `no provider's key is set: ${development ? "only the simulator's models" : "no model"} can be called`,
      hint: "Set OPENAI_API_KEY, ANTHROPIC_API_KEY or another provider's key.",
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
      message: `${provider.name} has no address`,
      hint: `Set ${provider.envPrefix}_BASE_URL.`,
    };
  if (setting.apiKey === undefined && !provider.isLocal)
    return {
      status: "warn",
      check,
      message: `${provider.name} has an address and no key`,
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
        message: `${provider.name} answers; its list of models is open to all, so the key was not tried`,
      };
    return findingForStatus(provider, response.status);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      status: "fail",
      check,
      message: `${provider.name} cannot be reached at ${baseUrl}: ${why}`,
      hint: `See that this machine may call it, or set ${provider.envPrefix}_BASE_URL.`,
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

// The list of models lies beside the endpoint that generates, where the key is sent in the same way.
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
  if (status < 300) return { status: "ok", check, message: `${name} answers and takes the key` };
  if (status === 401 || status === 403)
    return {
      status: "fail",
      check,
      message: `${name} refuses the key (${status})`,
      hint: `Set ${envPrefix}_API_KEY to a key that is valid.`,
    };
  if (status === 404 || status === 405)
    return {
      status: "note",
      check,
      message: `${name} answers; it has no list of models to try the key on`,
    };
  return {
    status: "warn",
    check,
    message: `${name} answers with ${status}`,
    hint: "Try again later; the provider may have trouble.",
  };
}
