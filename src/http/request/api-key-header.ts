// Reads the raw API key from `authorization` or `x-api-key`, and on Google's API also from where Google's clients send it.

import { Fault, invalid, type NextStep } from "../../base/fault.ts";
import type { Dialect } from "../route.ts";

/** What of a request can have the key: its query only on Google's API. */
export interface KeySources {
  readonly headers: Headers;
  readonly query?: string | undefined;
}

const GOOGLE_HEADER = "x-goog-api-key";

export function readApiKey(sources: KeySources, dialect: Dialect): string | undefined {
  const common = readCommonKey(sources.headers, dialect);
  const own = dialect === "google" ? readGoogleKey(sources) : undefined;
  if (own !== undefined && common !== undefined && own !== common)
    throw invalid(GOOGLE_HEADER, "The request contains two different API keys. Send one.");
  return own ?? common;
}

function readGoogleKey({ headers, query = "" }: KeySources): string | undefined {
  const inHeader = headers.get(GOOGLE_HEADER)?.trim() || undefined;
  const inQuery = query.includes("key=")
    ? new URLSearchParams(query).getAll("key").filter((one) => one !== "")
    : [];
  const [key, ...others] = new Set([...(inHeader === undefined ? [] : [inHeader]), ...inQuery]);
  if (others.length > 0 || key?.includes(",") === true)
    throw invalid(
      GOOGLE_HEADER,
      `Send one API key, in the \`${GOOGLE_HEADER}\` header or in the \`key\` query parameter.`,
    );
  return key;
}

function readCommonKey(headers: Headers, dialect: Dialect): string | undefined {
  const bearer = headers.get("authorization");
  // With an unset variable, Anthropic's clients send this header empty besides `authorization`.
  const apiKeyHeader = headers.get("x-api-key")?.trim() || undefined;
  // Repeated headers arrive joined by a comma, which no key contains.
  if (apiKeyHeader?.includes(",") === true && dialect !== "oauth")
    throw invalid("x-api-key", "Send the `x-api-key` header once, with one API key.");
  if (bearer === null || (apiKeyHeader !== undefined && /^bearer$/i.test(bearer.trim())))
    return apiKeyHeader;
  if (isPaymentCredential(bearer))
    return apiKeyHeader ?? (headers.has("signature-input") ? undefined : missingBesidesPayment());
  const match = /^bearer +([^\s,]+)$/i.exec(bearer.trim());
  if (match?.[1] === undefined) throw notBearer(bearer, dialect);
  if (apiKeyHeader !== undefined && apiKeyHeader !== match[1])
    throw invalid(
      "x-api-key",
      "`authorization` and `x-api-key` contain different API keys. Send one.",
    );
  return match[1];
}

/** Like `readApiKey`, but undefined for a header that is not an API key. */
export function findApiKey(sources: KeySources, dialect: Dialect): string | undefined {
  try {
    return readApiKey(sources, dialect);
  } catch {
    return undefined;
  }
}

// A malformed key is a 401 (RFC 6749 §5.2); two keys are ambiguous and therefore a 400.
function notBearer(header: string, dialect: Dialect): Fault {
  const message = isRawKey(header)
    ? "The API key in `authorization` is sent without `Bearer`. Send the header as `Bearer <API_KEY>`."
    : "Send the `authorization` header once, as `Bearer <API_KEY>`.";
  if (header.includes(",") && dialect !== "oauth") return invalid("authorization", message);
  return new Fault("invalid_api_key", "not a bearer key", { message, next: [AUTHENTICATION_STEP] });
}

const KIND = "-rt-";
const SECRET_MIN_CHARACTERS = 20;

/** A key of a gateway, whatever its prefix, alone or after another scheme than `Bearer`. In linear time: strangers send it. */
function isRawKey(text: string): boolean {
  const [, word = ""] = /^(?:(?!bearer\b)\w+ +)?([^\s,]+)$/i.exec(text) ?? [];
  const end = word.toLowerCase().indexOf(KIND, 1);
  const secret = word.slice(end + KIND.length);
  return end > 0 && secret.length >= SECRET_MIN_CHARACTERS && /^[\w-]+$/.test(word.slice(0, end));
}

/** Headers in which other services take their keys. */
const OTHER_KEY_HEADERS = [
  "api-key",
  "apikey",
  "x-goog-api-key",
  "x-auth-token",
  "x-access-token",
  "proxy-authorization",
];

/** The 401 of a request without a key, which names the header that contains one. */
export function missingKeyFault(headers: Headers, dialect: Dialect): Fault {
  if (dialect === "google")
    return new Fault("invalid_api_key", "no key", {
      message: `The API key is missing. Send it as \`${GOOGLE_HEADER}: <API_KEY>\`.`,
    });
  const wrong = misplacedKeyHeader(headers);
  if (wrong === undefined)
    return new Fault("invalid_api_key", "no key", {
      message: "The API key is missing. Send it as `authorization: Bearer <API_KEY>`.",
    });
  return new Fault("invalid_api_key", "key in another header", {
    message: `The API key is in the header \`${wrong}\`, which is not read. Send it as \`authorization: Bearer <API_KEY>\`.`,
    next: [AUTHENTICATION_STEP],
  });
}

function misplacedKeyHeader(headers: Headers): string | undefined {
  return OTHER_KEY_HEADERS.find((name) => isRawKey(headers.get(name) ?? ""));
}

export function hasMisplacedKey(headers: Headers): boolean {
  return misplacedKeyHeader(headers) !== undefined;
}

const AUTHENTICATION_STEP: NextStep = {
  method: "GET",
  url: "/docs/keys.md",
  why: "Read how to send an API key.",
};

/** `Authorization: Payment` pays for a request, whose key is in `x-api-key`. */
export function isPaymentCredential(authorization: string | null): boolean {
  return authorization !== null && /^payment(\s|$)/i.test(authorization.trim());
}

function missingBesidesPayment(): never {
  throw new Fault("invalid_api_key", "payment without a key", {
    message: "The API key is missing. Send it as `x-api-key` beside `authorization: Payment`.",
  });
}
