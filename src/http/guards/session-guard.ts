// Guards of the HTML pages: redirects to sign-in, and CSRF protection of forms by origin and token.

import { timingSafeEqualText } from "../../base/crypto/secret.ts";
import { Fault } from "../../base/fault.ts";
import type { SessionUser } from "../route.ts";

export const SIGN_IN_PATH = "/signin";
/** The page that shows the kept form after the sign-in. */
export const KEPT_FORM_PATH = "/signin/form";
const CSRF_FIELD = "csrf";

/** A form as it was sent. */
export interface SentForm {
  readonly path: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** Redirects to sign-in, which returns to this page. */
export function redirectToSignIn(path: string, query: string): Response {
  const returnParams = new URLSearchParams({ return_to: query === "" ? path : `${path}?${query}` });
  return new Response(null, {
    status: 303,
    headers: {
      location: `${SIGN_IN_PATH}?${returnParams.toString()}`,
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
    },
  });
}

/** Throws if the form was not sent by our own page; returns its fields without the token. */
export function requireSameOriginForm(
  fields: Readonly<Record<string, string>>,
  headers: Headers,
  sessionUser: Pick<SessionUser, "csrf"> | undefined,
  baseUrl: string,
): Record<string, string> {
  if (!isSameOrigin(headers, baseUrl)) throw crossSiteForm("form from another origin");
  const { [CSRF_FIELD]: token = "", ...rest } = fields;
  if (sessionUser !== undefined && !timingSafeEqualText(token, sessionUser.csrf))
    throw crossSiteForm("wrong CSRF token");
  return rest;
}

// With `referrer-policy: no-referrer` browsers send `origin: null` even to the same origin, so `sec-fetch-site` decides;
// `origin` is the fallback for browsers that do not send it.
function isSameOrigin(headers: Headers, baseUrl: string): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site === "same-origin";
  return headers.get("origin") === new URL(baseUrl).origin;
}

/** The fault of a form that was sent after the session ended. */
export function sessionEnded(): Fault {
  return new Fault("forbidden", "form without a session", {
    message:
      "Your session has ended. Nothing was changed. Go back, reload the page, sign in and try again.",
  });
}

function crossSiteForm(detail: string): Fault {
  return new Fault("forbidden", detail, {
    message:
      "This form has expired or was not sent from Postern's own page. Nothing was changed. Go back, reload the page and try again.",
  });
}
