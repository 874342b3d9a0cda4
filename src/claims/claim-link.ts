// The claim link and the short-lived encrypted cookie that replaces its query: a token in the address bar would end up
// in histories, previews and logs.

import {
  deriveKey,
  encrypt,
  decrypt,
  type MasterSecret,
  type DerivedKey,
} from "../base/crypto/encryption.ts";
import { createCookieBuilder, readCookie } from "../base/network/cookie.ts";

export const CLAIM_PATH = "/claim";
export const CLAIM_CODE_PATH = `${CLAIM_PATH}/code`;

const COOKIE = "postern_claim";
const COOKIE_SECONDS = 900;

/** What the opened link contained. */
interface LinkState {
  /** Undefined if the link belongs to no attempt. */
  readonly attemptId: string | undefined;
  /** The user code of the link. */
  readonly userCode: string | undefined;
}

export interface LinkCookie {
  readonly set: (state: LinkState) => string;
  readonly clear: () => string;
  readonly read: (cookies: string | null) => LinkState | undefined;
}

export function createLinkCookie(master: MasterSecret, baseUrl: string): LinkCookie {
  const key = deriveKey(master, "claim-link/v1");
  const cookies = createCookieBuilder(baseUrl);
  return {
    set: ({ attemptId = "", userCode = "" }) =>
      cookies.set(COOKIE, encrypt(key, COOKIE, `${attemptId} ${userCode}`), COOKIE_SECONDS),
    clear: () => cookies.clear(COOKIE),
    read: (header) => {
      const sealed = readCookie(header, cookies.name(COOKIE));
      if (sealed === undefined || sealed === "") return undefined;
      const [attemptId = "", userCode = ""] = tryDecrypt(key, sealed)?.split(" ") ?? [];
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

function tryDecrypt(key: DerivedKey, sealed: string): string | undefined {
  try {
    return decrypt(key, COOKIE, sealed);
  } catch {
    return undefined;
  }
}
