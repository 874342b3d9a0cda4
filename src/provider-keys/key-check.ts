// Checks a new provider key with a cheap read at the provider. Only an explicit rejection counts: a provider that is slow or
// unavailable says nothing about the key.

import type { Secret } from "../base/crypto/secret.ts";
import { parseJson } from "../base/json.ts";

const CHECK_TIMEOUT_MS = 5_000;
const READ_MAX_BYTES = 8_192;

/** A provider's endpoint from the operator's configuration; callers cannot set URLs. */
export interface ProviderEndpoint {
  readonly provider: {
    readonly id: string;
    readonly name: string;
    readonly auth: "bearer" | "x-api-key" | "api-key";
    readonly headers: Readonly<Record<string, string>>;
    readonly paths: { readonly chat?: string; readonly messages?: string };
    /** Runs on the gateway's machine without a key. */
    readonly isLocal: boolean;
    /** False if callers cannot add keys for it. */
    readonly allowsCallerKeys?: false;
    /** A read that requires a key, for providers whose list of models is public. */
    readonly keyCheckPath?: string;
  };
  readonly baseUrl: string;
  /** The gateway's own at the provider. */
  readonly credentials: readonly {
    readonly apiKey: Secret | undefined;
    /** Signs requests instead of sending an API key. */
    readonly authorizer?: object;
  }[];
  readonly inProcess?: ((request: Request) => Promise<Response>) | undefined;
}

export type KeyCheckResult =
  | { readonly kind: "accepted"; readonly status: "active" | "unchecked" }
  | {
      readonly kind: "rejected";
      /** The provider's display name. */
      readonly name: string;
      readonly status: number;
      /** The provider's error message, without parts of the key. */
      readonly message: string;
    };

export type CheckKey = (provider: string, apiKey: Secret) => Promise<KeyCheckResult>;

export const UNCHECKED: KeyCheckResult = { kind: "accepted", status: "unchecked" };

/**
 * Calls with a caller's own key cost no credits. For a provider that needs no key, any text would pass as one and make calls
 * free, so no keys can be added for it.
 */
export function canAddKey(
  { provider, credentials }: ProviderEndpoint,
  development: boolean,
): boolean {
  if (provider.isLocal || provider.allowsCallerKeys === false) return false;
  if (provider.id === "sim") return development;
  return credentials.every(
    ({ apiKey, authorizer }) => apiKey !== undefined || authorizer !== undefined,
  );
}

export function createKeyCheck({
  endpointOf,
  timeoutMs = CHECK_TIMEOUT_MS,
}: {
  readonly endpointOf: (provider: string) => ProviderEndpoint | undefined;
  readonly timeoutMs?: number;
}): CheckKey {
  return async (provider, apiKey) => {
    const endpoint = endpointOf(provider);
    if (endpoint === undefined) return UNCHECKED;
    const abort = new AbortController();
    const timedOut = Promise.withResolvers<KeyCheckResult>();
    const timer = setTimeout(() => {
      timedOut.resolve(UNCHECKED);
      abort.abort();
    }, timeoutMs);
    try {
      return await Promise.race([checkKeyAt(endpoint, apiKey, abort.signal), timedOut.promise]);
    } catch {
      return UNCHECKED;
    } finally {
      clearTimeout(timer);
    }
  };
}

async function checkKeyAt(
  endpoint: ProviderEndpoint,
  apiKey: Secret,
  signal: AbortSignal,
): Promise<KeyCheckResult> {
  const reply = await requestModels(endpoint, apiKey, signal);
  if (reply.ok) {
    await discardBody(reply);
    // A list that can be read without a key proves nothing about the key.
    const anonymousReply = await requestModels(endpoint, undefined, signal);
    await discardBody(anonymousReply);
    return [400, 401, 403].includes(anonymousReply.status)
      ? { kind: "accepted", status: "active" }
      : UNCHECKED;
  }
  const errorBody = await readStart(reply);
  if (!isKeyRefusal(reply.status, errorBody)) return UNCHECKED;
  const { name } = endpoint.provider;
  return {
    kind: "rejected",
    name,
    status: reply.status,
    message: refusalMessage(errorBody, apiKey),
  };
}

// Some providers answer 400 to a wrong key. A 403 that names a scope is a restricted key, which may be able to call models.
function isKeyRefusal(status: number, errorBody: string): boolean {
  if (status === 401) return true;
  if (status === 403) return !/\bscopes?\b/i.test(errorBody);
  return status === 400 && /\bapi[ _-]?key/i.test(errorBody);
}

function requestModels(
  { provider, baseUrl, inProcess }: ProviderEndpoint,
  apiKey: Secret | undefined,
  signal: AbortSignal,
): Promise<Response> {
  const headers: Record<string, string> = {
    accept: "application/json",
    "accept-encoding": "identity",
    "user-agent": "postern",
    ...provider.headers,
  };
  if (apiKey !== undefined && provider.auth === "bearer")
    headers["authorization"] = `Bearer ${apiKey.reveal()}`;
  else if (apiKey !== undefined) headers[provider.auth] = apiKey.reveal();
  const url = baseUrl + checkPathOf(provider);
  const init = { method: "GET", headers, redirect: "manual", signal } as const;
  return inProcess === undefined ? fetch(url, init) : inProcess(new Request(url, init));
}

// The list of models is a sibling of the generation endpoint.
function checkPathOf({ paths, keyCheckPath }: ProviderEndpoint["provider"]): string {
  if (keyCheckPath !== undefined) return keyCheckPath;
  const generationPath = paths.chat ?? paths.messages ?? "";
  return `${generationPath.replace(/\/(chat\/completions|messages)$/, "")}/models`;
}

async function readStart(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  while (size < READ_MAX_BYTES) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel().catch(() => {});
  return text.slice(0, READ_MAX_BYTES);
}

async function discardBody(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => {});
}

// Sanitizes a provider's error message about a rejected key: one short line without any part of the key.
const MESSAGE_MAX_CHARACTERS = 300;
/** A word that shares this many consecutive characters with the key is redacted. */
const KEY_FRAGMENT_MIN_CHARACTERS = 6;

function refusalMessage(errorBody: string, apiKey: Secret): string {
  const raw = apiKey.reveal();
  const words = errorMessageIn(errorBody)
    .split(/[\s\p{Cc}\p{Cf}]+/u)
    .filter((word) => word !== "")
    .map((word) => (revealsKey(word, raw) ? "[key]" : word))
    .join(" ");
  return words.length > MESSAGE_MAX_CHARACTERS
    ? `${words.slice(0, MESSAGE_MAX_CHARACTERS)}…`
    : words;
}

function errorMessageIn(errorBody: string): string {
  const outer = parseJson(errorBody);
  const body: unknown = Array.isArray(outer) ? outer[0] : outer;
  const error = fieldOf(body, "error");
  const candidates = [fieldOf(error, "message"), error, fieldOf(body, "message")];
  return [...candidates, fieldOf(body, "detail")].find((value) => typeof value === "string") ?? "";
}

// Providers echo keys in full, in part, or with asterisks in the middle.
function revealsKey(word: string, raw: string): boolean {
  if (/\*{2}|\.{3}[^.]|…./.test(word)) return true;
  for (let start = 0; start + KEY_FRAGMENT_MIN_CHARACTERS <= word.length; start++)
    if (raw.includes(word.slice(start, start + KEY_FRAGMENT_MIN_CHARACTERS))) return true;
  return false;
}

function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return Reflect.get(value, name);
}
