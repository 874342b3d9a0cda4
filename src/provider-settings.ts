// The settings of the providers, out of the environment: `<STEM>_API_KEY`, `<STEM>_BASE_URL`, and what a provider's row
// names besides.

import { readFileSync } from "node:fs";
import { type Secret, secret } from "./base/secret.ts";

export interface ProviderSetting {
  readonly apiKey?: Secret;
  readonly baseUrl?: string;
  /** The row's further settings by their names: plain ones, and those that must not be printed. */
  readonly plain?: Readonly<Record<string, string>>;
  readonly secrets?: Readonly<Record<string, Secret>>;
}

/** As much of a provider's row as is needed to read its settings. */
export interface SettableProvider {
  readonly id: string;
  readonly stem: string;
  readonly settings?: readonly {
    readonly name: string;
    readonly kind: "plain" | "secret" | "file";
    /** Another setting without which it makes no sense. */
    readonly needs?: string;
    readonly mistakeIn?: (value: string) => string | undefined;
  }[];
}

type Given = Readonly<Record<string, string | undefined>>;

export function readProviders(
  given: Given,
  providers: readonly SettableProvider[],
  mistakes: string[],
): Readonly<Record<string, ProviderSetting>> {
  const settings: Record<string, ProviderSetting> = {};
  for (const provider of providers) {
    const setting = readOne(given, provider, mistakes);
    if (setting !== undefined) settings[provider.id] = setting;
  }
  return settings;
}

function readOne(
  given: Given,
  { stem, settings = [] }: SettableProvider,
  mistakes: string[],
): ProviderSetting | undefined {
  const apiKey = given[`${stem}_API_KEY`];
  if (apiKey !== undefined && !isOneWord(apiKey))
    mistakes.push(
      `${stem}_API_KEY has white space or another character that no key has, perhaps a line's end that came with it`,
    );
  const baseUrl = urlIn(given, `${stem}_BASE_URL`, mistakes);
  const { plain, secrets } = readFurther(given, stem, settings, mistakes);
  const isSet = Object.keys(plain).length + Object.keys(secrets).length > 0;
  if (apiKey === undefined && given[`${stem}_BASE_URL`] === undefined && !isSet) return undefined;
  return {
    ...(apiKey === undefined ? {} : { apiKey: secret(apiKey) }),
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(isSet ? { plain, secrets } : {}),
  };
}

// It travels in a header, which bears nothing else: every call would fail as if the provider could not be reached.
function isOneWord(key: string): boolean {
  return /^[\x21-\x7e]+$/.test(key);
}

function readFurther(
  given: Given,
  stem: string,
  settings: NonNullable<SettableProvider["settings"]>,
  mistakes: string[],
): { readonly plain: Record<string, string>; readonly secrets: Record<string, Secret> } {
  const plain: Record<string, string> = {};
  const secrets: Record<string, Secret> = {};
  for (const { name, kind, needs, mistakeIn } of settings) {
    const variable = `${stem}_${name}`;
    const value = given[variable];
    if (value === undefined) continue;
    if (needs !== undefined && given[`${stem}_${needs}`] === undefined)
      mistakes.push(`${variable} needs ${stem}_${needs}`);
    const text = kind === "file" ? textOf(value, variable, mistakes) : value;
    const mistake = text === undefined ? undefined : mistakeIn?.(text);
    if (mistake !== undefined) mistakes.push(`${variable} ${mistake}`);
    if (kind === "plain") plain[name] = value;
    else if (text !== undefined) secrets[name] = secret(text);
  }
  return { plain, secrets };
}

function urlIn(given: Given, variable: string, mistakes: string[]): string | undefined {
  const value = given[variable];
  if (value === undefined) return undefined;
  if (URL.canParse(value) && /^https?:$/.test(new URL(value).protocol))
    return value.replace(/\/+$/, "");
  mistakes.push(`${variable} must be an http:// or https:// address`);
  return undefined;
}

// Secrets that come as files may be given as such, which is how they are mounted, or by their text.
function textOf(value: string, variable: string, mistakes: string[]): string | undefined {
  if (value.trimStart().startsWith("{")) return value;
  try {
    return readFileSync(value, "utf8");
  } catch {
    mistakes.push(`${variable} must be JSON, or the path of a file that can be read`);
    return undefined;
  }
}

const PROXY_NAMES = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];

/** Whether the way out leads through a proxy, by the names that every tool knows. */
export function namesProxy(given: Readonly<Record<string, unknown>>): boolean {
  return PROXY_NAMES.some((name) => given[name] !== undefined);
}
