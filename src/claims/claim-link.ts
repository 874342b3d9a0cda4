// The link that an agent gives to a human, and the short-lived sealed cookie that takes its place: what stands in an
// address bar ends up in histories, previews and logs.

import { createCookieBuilder, readCookie } from "../base/cookie.ts";
import { deriveKey, encrypt, decrypt } from "../base/encryption.ts";
import type { Secret } from "../base/secret.ts";

export const CLAIM_PATH = "/claim";

const COOKIE = "postern_claim";
const COOKIE_SECONDS = 900;

/** What a human has shown of an attempt. */
interface LinkState {
  /** Undefined where the link belongs to no attempt. */
  readonly attemptId: string | undefined;
  /** The code that stood in the link. */
  readonly userCode: string | undefined;
}

export interface LinkCookie {
  readonly set: (state: LinkState) => string;
  readonly clear: () => string;
  readonly read: (cookies: string | null) => LinkState | undefined;
}

export function createLinkCookie(master: Secret, baseUrl: string): LinkCookie {
  const key = deriveKey(master, "claim-link/v1");
  const form = createCookieBuilder(baseUrl);
  return {
    set: ({ attemptId = "", userCode = "" }) =>
      form.set(COOKIE, encrypt(key, COOKIE, `${attemptId} ${userCode}`), COOKIE_SECONDS),
    clear: () => form.clear(COOKIE),
    read: (cookies) => {
      const sealed = readCookie(cookies, form.name(COOKIE));
      if (sealed === undefined || sealed === "") return undefined;
      const [attemptId = "", userCode = ""] = tryUnseal(key, sealed)?.split(" ") ?? [];
      return {
        attemptId: attemptId === "" ? undefined : attemptId,
        userCode: isUserCode(userCode) ? userCode : undefined,
      };
    },
  };
}

export function isClaimToken(text: string | undefined): text is string {
  return text !== undefined && /^[0-9A-Za-z]{43}$/.test(text);
}

export function isUserCode(text: string | undefined): text is string {
  return text !== undefined && /^\d{6}$/.test(text);
}

function tryUnseal(key: Uint8Array, sealed: string): string | undefined {
  try {
    return decrypt(key, COOKIE, sealed);
  } catch {
    return undefined;
  }
}
