// Reads the settings of the providers from the environment: `<STEM>_API_KEY`, `<STEM>_BASE_URL`, and the other variables that
// a provider's row names.

import { readFileSync } from "node:fs";
import { type Secret, secret } from "../base/crypto/secret.ts";
import type { ProviderSetting, ProviderTimeouts } from "../inference/providers/provider-setting.ts";
import { TIMEOUT_SECONDS_MAX } from "./timeout-settings.ts";

/** The fields of a provider's row that name its settings. */
export interface ProviderSettingsSpec {
  readonly id: string;
  readonly envPrefix: string;
  readonly settings?: readonly {
    readonly name: string;
    readonly kind: "plain" | "secret" | "file";
    /** A setting that it requires. */
    readonly requires?: string;
    readonly validate?: (value: string) => string | undefined;
  }[];
}

type EnvVariables = Readonly<Record<string, string | undefined>>;

export function readProviderSettings(
  variables: EnvVariables,
  providers: readonly ProviderSettingsSpec[],
  errors: string[],
): Readonly<Record<string, ProviderSetting>> {
  const settings: Record<string, ProviderSetting> = {};
  for (const provider of providers) {
    const setting = readProviderSetting(variables, provider, errors);
    if (setting !== undefined) settings[provider.id] = setting;
  }
  return settings;
}

function readProviderSetting(
  variables: EnvVariables,
  { envPrefix, settings = [] }: ProviderSettingsSpec,
  errors: string[],
): ProviderSetting | undefined {
  const apiKey = variables[`${envPrefix}_API_KEY`];
  if (apiKey !== undefined && !isHeaderSafe(apiKey))
    errors.push(
      `${envPrefix}_API_KEY contains whitespace or another character that is not valid in a key; check for a trailing line break`,
    );
  const baseUrl = readUrl(variables, `${envPrefix}_BASE_URL`, errors);
  const { plain, secrets } = readExtraSettings(variables, envPrefix, settings, errors);
  const timeouts = readTimeouts(variables, envPrefix, errors);
  const isSet = Object.keys(plain).length + Object.keys(secrets).length > 0;
  if (apiKey === undefined && variables[`${envPrefix}_BASE_URL`] === undefined && !isSet)
    return undefined;
  return {
    ...(apiKey === undefined ? {} : { apiKey: secret(apiKey) }),
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(isSet ? { plain, secrets } : {}),
    ...(timeouts === undefined ? {} : { timeouts }),
  };
}

function readTimeouts(
  variables: EnvVariables,
  envPrefix: string,
  errors: string[],
): ProviderTimeouts | undefined {
  const read = (name: string): number | undefined => {
    const value = variables[`${envPrefix}_${name}`];
    if (value === undefined) return undefined;
    const seconds = /^\d{1,4}$/.test(value) ? Number(value) : 0;
    if (seconds >= 1 && seconds <= TIMEOUT_SECONDS_MAX) return seconds;
    errors.push(
      `${envPrefix}_${name} must be a whole number from 1 to ${TIMEOUT_SECONDS_MAX}; it is capped by POSTERN_${name}`,
    );
    return undefined;
  };
  const requestSeconds = read("REQUEST_TIMEOUT_SECONDS");
  const streamSeconds = read("STREAM_TIMEOUT_SECONDS");
  return requestSeconds === undefined && streamSeconds === undefined
    ? undefined
    : { requestSeconds, streamSeconds };
}

// The key is sent in a header. With any other character every call would fail as if the provider were unreachable.
function isHeaderSafe(key: string): boolean {
  return /^[\x21-\x7e]+$/.test(key);
}

function readExtraSettings(
  variables: EnvVariables,
  envPrefix: string,
  settings: NonNullable<ProviderSettingsSpec["settings"]>,
  errors: string[],
): { readonly plain: Record<string, string>; readonly secrets: Record<string, Secret> } {
  const plain: Record<string, string> = {};
  const secrets: Record<string, Secret> = {};
  for (const { name, kind, requires, validate } of settings) {
    const variable = `${envPrefix}_${name}`;
    const value = variables[variable];
    if (value === undefined) continue;
    if (requires !== undefined && variables[`${envPrefix}_${requires}`] === undefined)
      errors.push(`${variable} requires ${envPrefix}_${requires}`);
    const text = kind === "file" ? readInlineOrFile(value, variable, errors) : value;
    const error = text === undefined ? undefined : validate?.(text);
    if (error !== undefined) errors.push(`${variable} ${error}`);
    if (kind === "plain") plain[name] = value;
    else if (text !== undefined) secrets[name] = secret(text);
  }
  return { plain, secrets };
}

function readUrl(variables: EnvVariables, variable: string, errors: string[]): string | undefined {
  const value = variables[variable];
  if (value === undefined) return undefined;
  if (URL.canParse(value) && /^https?:$/.test(new URL(value).protocol))
    return value.replace(/\/+$/, "");
  errors.push(`${variable} must be an http:// or https:// address`);
  return undefined;
}

// A file secret can be a path, as mounted, or the text itself.
function readInlineOrFile(value: string, variable: string, errors: string[]): string | undefined {
  if (value.trimStart().startsWith("{")) return value;
  try {
    return readFileSync(value, "utf8");
  } catch {
    errors.push(`${variable} must be JSON or the path of a readable file`);
    return undefined;
  }
}

const PROXY_VARIABLES = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];

export function hasProxyVariable(variables: Readonly<Record<string, unknown>>): boolean {
  return PROXY_VARIABLES.some((name) => variables[name] !== undefined);
}
