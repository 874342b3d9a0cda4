// Asks a provider whether it takes a key, with its cheapest read. Only a plain refusal counts against the key: a provider
// that is silent, slow or in trouble says nothing about it.

import type { Secret } from "../base/secret.ts";
import { refusalWords } from "./refusal-words.ts";

const ANSWER_WITHIN_MS = 5_000;
const READ_MAX_BYTES = 8_192;

/** Where a provider is, by the operator's word; a caller never names an address. */
export interface ProviderPlace {
  readonly provider: {
    readonly id: string;
    readonly name: string;
    readonly auth: "bearer" | "x-api-key" | "api-key";
    readonly headers: Readonly<Record<string, string>>;
    readonly paths: { readonly chat?: string; readonly messages?: string };
    /** Runs beside the gateway and needs no key. */
    readonly local: boolean;
    /** False where a caller cannot bring a key. */
    readonly ownKeys?: false;
    /** A read that needs a key, where the list of models does not. */
    readonly keyCheckPath?: string;
  };
  readonly baseUrl: string;
  /** The gateway's own account there. */
  readonly own:
    | {
        readonly apiKey: Secret | undefined;
        /** The gateway signs its requests, so that a key is asked for there all the same. */
        readonly authorize?: object;
        readonly inProcess?: (request: Request) => Promise<Response>;
      }
    | undefined;
}

export type KeyVerdict =
  | { readonly kind: "accepted"; readonly status: "active" | "unchecked" }
  | {
      readonly kind: "refused";
      /** What the provider calls itself. */
      readonly name: string;
      readonly status: number;
      /** The provider's sentence, without anything of the key. */
      readonly words: string;
    };

export type CheckKey = (provider: string, apiKey: Secret) => Promise<KeyVerdict>;

export const UNCHECKED: KeyVerdict = { kind: "accepted", status: "unchecked" };

/**
 * Calls on an own key cost no credits. Where the gateway itself needs no key, any text would pass for one, and every call
 * would be free.
 */
export function mayBringKey({ provider, own }: ProviderPlace, development: boolean): boolean {
  if (provider.local || provider.ownKeys === false) return false;
  if (provider.id === "sim") return development;
  return own === undefined || own.apiKey !== undefined || own.authorize !== undefined;
}

export function createKeyCheck({
  placeOf,
  timeoutMs = ANSWER_WITHIN_MS,
}: {
  readonly placeOf: (provider: string) => ProviderPlace | undefined;
  readonly timeoutMs?: number;
}): CheckKey {
  return async (provider, apiKey) => {
    const place = placeOf(provider);
    if (place === undefined) return UNCHECKED;
    const late = new AbortController();
    const timedOut = Promise.withResolvers<KeyVerdict>();
    const timer = setTimeout(() => {
      timedOut.resolve(UNCHECKED);
      late.abort();
    }, timeoutMs);
    try {
      return await Promise.race([judge(place, apiKey, late.signal), timedOut.promise]);
    } catch {
      return UNCHECKED;
    } finally {
      clearTimeout(timer);
    }
  };
}

async function judge(
  place: ProviderPlace,
  apiKey: Secret,
  signal: AbortSignal,
): Promise<KeyVerdict> {
  const reply = await ask(place, apiKey, signal);
  if (reply.ok) {
    await drop(reply);
    // A list that is open to everybody proves nothing about a key.
    const stranger = await ask(place, undefined, signal);
    await drop(stranger);
    return [400, 401, 403].includes(stranger.status)
      ? { kind: "accepted", status: "active" }
      : UNCHECKED;
  }
  const told = await readStart(reply);
  if (!isRefusal(reply.status, told)) return UNCHECKED;
  const { name } = place.provider;
  return { kind: "refused", name, status: reply.status, words: refusalWords(told, apiKey) };
}

// Some providers say 400 to a wrong key. A 403 for want of a scope is a restricted key, which may well call models.
function isRefusal(status: number, told: string): boolean {
  if (status === 401) return true;
  if (status === 403) return !/\bscopes?\b/i.test(told);
  return status === 400 && /\bapi[ _-]?key/i.test(told);
}

function ask(
  { provider, baseUrl, own }: ProviderPlace,
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
  const outgoing = { method: "GET", headers, redirect: "manual", signal } as const;
  return own?.inProcess === undefined
    ? fetch(url, outgoing)
    : own.inProcess(new Request(url, outgoing));
}

// The list of models lies beside the endpoint that generates.
function checkPathOf({ paths, keyCheckPath }: ProviderPlace["provider"]): string {
  if (keyCheckPath !== undefined) return keyCheckPath;
  const beside = paths.chat ?? paths.messages ?? "";
  return `${beside.replace(/\/(chat\/completions|messages)$/, "")}/models`;
}

async function readStart(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let told = "";
  let size = 0;
  while (size < READ_MAX_BYTES) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    told += decoder.decode(value, { stream: true });
  }
  await reader.cancel().catch(() => {});
  return told.slice(0, READ_MAX_BYTES);
}

async function drop(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => {});
}
