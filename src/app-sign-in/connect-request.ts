// What an app asks of a person at /connect: where the code goes, its PKCE challenge, and the settings that it proposes for its key.

import { z } from "zod";
import { isCodeChallenge } from "../base/crypto/pkce.ts";
import { isLoopbackRedirect, problemOfRedirectUri } from "../mcp-sign-in/redirect-uris.ts";

export const CONNECT_PATH = "/connect";
const STATE_MAX_CHARACTERS = 1_000;

const parameter = z.string().max(1_000).optional();

/** The request of the app; the form of the page sends it back. */
export const CONNECT_FIELDS = {
  callback_url: parameter,
  code_challenge: parameter,
  code_challenge_method: parameter,
  state: z.string().max(STATE_MAX_CHARACTERS).optional(),
};

/** What the app proposes, and what the person sends. */
export const CHOICE_FIELDS = {
  limit: z.string().max(40).optional(),
  reset: z.string().max(10).optional(),
  days: z.string().max(10).optional(),
  models: z.string().max(5_000).optional(),
};

export const ConnectQuery = z.looseObject({ ...CONNECT_FIELDS, ...CHOICE_FIELDS });
export type ConnectFields = Readonly<z.infer<z.ZodObject<typeof CONNECT_FIELDS>>>;
export type ConnectChoices = Readonly<z.infer<z.ZodObject<typeof CHOICE_FIELDS>>>;

export interface ConnectRequest {
  readonly callbackUrl: string;
  readonly codeChallenge: string;
  readonly state: string | undefined;
  /** The host of the callback URL: a name that the app gave itself would prove nothing. */
  readonly app: string;
}

/** A text says what is wrong with the request. */
export function readConnectRequest({
  callback_url: callbackUrl = "",
  code_challenge: codeChallenge = "",
  code_challenge_method: method,
  state,
}: ConnectFields): ConnectRequest | string {
  const problem = problemOfCallbackUrl(callbackUrl);
  if (problem !== undefined) return `\`callback_url\` ${problem}.`;
  if (method !== "S256" || !isCodeChallenge(codeChallenge))
    return "PKCE is required: send `code_challenge`, the base64url SHA-256 of a random `code_verifier`, with `code_challenge_method=S256`.";
  return { callbackUrl, codeChallenge, state, app: appOf(callbackUrl) };
}

function problemOfCallbackUrl(url: string): string | undefined {
  const problem = problemOfRedirectUri(url);
  if (problem !== undefined) return problem;
  // An app of a device could be replaced by any other that registers its scheme.
  if (new URL(url).protocol === "https:" || isLoopbackRedirect(url)) return undefined;
  return "must begin with https://, or with http:// and a loopback host";
}

function appOf(callbackUrl: string): string {
  const { host } = new URL(callbackUrl);
  return isLoopbackRedirect(callbackUrl) ? `a program on this computer (${host})` : host;
}
