// What `doctor` says about providers: which keys are set, and whether they are answered.

import type { ProviderSetting } from "../provider-settings.ts";
import { type Provider, PROVIDERS } from "../inference/providers.ts";
import type { Finding } from "./doctor.ts";
import { checkCloud } from "./doctor-clouds.ts";

const ANSWER_WITHIN_MS = 5_000;

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
      verdict: development ? "warn" : "fail",
      about: "providers",
      says: `no provider's key is set: ${development ? "only the simulator's models" : "no model"} can be called`,
      mend: "Set OPENAI_API_KEY, ANTHROPIC_API_KEY or another provider's key.",
    },
  ];
}

async function checkProvider(provider: Provider, setting: ProviderSetting): Promise<Finding> {
  if (provider.signsWith !== undefined) return checkCloud(provider, setting);
  const about = provider.id;
  const baseUrl = setting.baseUrl ?? provider.baseUrl;
  if (baseUrl === "")
    return {
      verdict: "fail",
      about,
      says: `${provider.name} has no address`,
      mend: `Set ${provider.stem}_BASE_URL.`,
    };
  if (setting.apiKey === undefined && !provider.local)
    return {
      verdict: "warn",
      about,
      says: `${provider.name} has an address and no key`,
      mend: `Set ${provider.stem}_API_KEY.`,
    };
  try {
    const response = await fetch(modelsUrl(provider, baseUrl), {
      headers: { ...provider.headers, ...authOf(provider, setting) },
      redirect: "manual",
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    await response.body?.cancel();
    if (response.ok && setting.apiKey !== undefined && (await isOpen(provider, baseUrl)))
      return {
        verdict: "note",
        about,
        says: `${provider.name} answers; its list of models is open to all, so the key was not tried`,
      };
    return describeStatus(provider, response.status);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      verdict: "fail",
      about,
      says: `${provider.name} cannot be reached at ${baseUrl}: ${why}`,
      mend: `See that this machine may call it, or set ${provider.stem}_BASE_URL.`,
    };
  }
}

async function isOpen(provider: Provider, baseUrl: string): Promise<boolean> {
  const response = await fetch(modelsUrl(provider, baseUrl), {
    headers: provider.headers,
    redirect: "manual",
    signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
  });
  await response.body?.cancel();
  return response.ok;
}

// The list of models lies beside the endpoint that generates, where the key is sent in the same way.
function modelsUrl({ paths }: Provider, baseUrl: string): string {
  const beside = paths.chat ?? paths.messages ?? "";
  return `${baseUrl}${beside.replace(/\/(chat\/completions|messages)$/, "")}/models`;
}

function authOf(provider: Provider, { apiKey }: ProviderSetting): Record<string, string> {
  if (apiKey === undefined) return {};
  return provider.auth === "bearer"
    ? { authorization: `Bearer ${apiKey.reveal()}` }
    : { [provider.auth]: apiKey.reveal() };
}

function describeStatus({ id: about, name, stem }: Provider, status: number): Finding {
  if (status < 300) return { verdict: "ok", about, says: `${name} answers and takes the key` };
  if (status === 401 || status === 403)
    return {
      verdict: "fail",
      about,
      says: `${name} refuses the key (${status})`,
      mend: `Set ${stem}_API_KEY to a key that is valid.`,
    };
  if (status === 404 || status === 405)
    return {
      verdict: "note",
      about,
      says: `${name} answers; it has no list of models to try the key on`,
    };
  return {
    verdict: "warn",
    about,
    says: `${name} answers with ${status}`,
    mend: "Try again later; the provider may have trouble.",
  };
}
