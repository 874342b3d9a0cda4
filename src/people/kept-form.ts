// A form that was sent after its session ended: what was typed is kept in an encrypted cookie until the person has signed
// in again. Nothing is stored.

import { decrypt, deriveKey, encrypt, type MasterSecret } from "../base/crypto/encryption.ts";
import { isObject } from "../base/json.ts";
import { createCookieBuilder, readCookie } from "../base/network/cookie.ts";
import { MINUTE_MS } from "../base/time.ts";
import type { SentForm } from "../http/guards/session-guard.ts";

const COOKIE = "postern_form";
const KEPT_SECONDS = 30 * 60;
/** Browsers ignore a cookie of more than 4,096 bytes. */
const COOKIE_MAX = 3_800;
/** Never kept: what is typed there must not be sent twice through the browser. */
const SECRET_FIELDS: ReadonlySet<string> = new Set([
  "csrf",
  "api_key",
  "code",
  "user_code",
  "token",
  "client_secret",
  "header_value",
]);

export interface KeptForms {
  /** The Set-Cookie value that keeps the form without its secrets; undefined if it is too large. */
  readonly keep: (form: SentForm, now: number) => string | undefined;
  readonly find: (cookies: string | null, now: number) => SentForm | undefined;
}

export function createKeptForms({
  master,
  baseUrl,
}: {
  readonly master: MasterSecret;
  readonly baseUrl: string;
}): KeptForms {
  const key = deriveKey(master, "kept-form/v1");
  const cookieBuilder = createCookieBuilder(baseUrl);
  return {
    keep: ({ path, fields }, now) => {
      const kept = Object.entries(fields).filter(([name]) => !SECRET_FIELDS.has(name));
      const until = now + (KEPT_SECONDS / 60) * MINUTE_MS;
      const form = { path, fields: Object.fromEntries(kept), until };
      const sealed = encrypt(key, COOKIE, JSON.stringify(form));
      return sealed.length > COOKIE_MAX
        ? undefined
        : cookieBuilder.set(COOKIE, sealed, KEPT_SECONDS);
    },
    find: (cookies, now) => {
      const sealed = readCookie(cookies, cookieBuilder.name(COOKIE));
      if (sealed === undefined) return undefined;
      try {
        const form: unknown = JSON.parse(decrypt(key, COOKIE, sealed));
        if (!isObject(form) || Number(form["until"]) <= now) return undefined;
        // Safe because only `keep` encrypts with this key.
        return { path: String(form["path"]), fields: form["fields"] as SentForm["fields"] };
      } catch {
        return undefined;
      }
    },
  };
}
