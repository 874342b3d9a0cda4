// Guards of the pages for people. A form is believed only where the browser says that this very site sent it, and where
// it carries the session's own token.

import { Fault } from "../../base/fault.ts";
import { timingSafeEqualText } from "../../base/secret.ts";
import type { SessionUser } from "../route.ts";

export const SIGN_IN_PATH = "/signin";
const CSRF_FIELD = "csrf";

/** Sends a stranger to sign in, and back to where they were. */
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

/** Throws where a form was not sent by this site's own page; answers its fields without the token. */
export function requireSameOriginForm(
  fields: Readonly<Record<string, string>>,
  headers: Headers,
  sessionUser: Pick<SessionUser, "csrf"> | undefined,
  baseUrl: string,
): Record<string, string> {
  if (!isSameOrigin(headers, baseUrl)) throw crossSiteForm("form from another site");
  const { [CSRF_FIELD]: token = "", ...rest } = fields;
  if (sessionUser !== undefined && !timingSafeEqualText(token, sessionUser.csrf))
    throw crossSiteForm("wrong form token");
  return rest;
}

// Under `referrer-policy: no-referrer` a browser sends `origin: null` even to its own site, so it is `sec-fetch-site`
// that tells, and the origin counts where a browser does not send that.
function isSameOrigin(headers: Headers, baseUrl: string): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site === "same-origin";
  return headers.get("origin") === new URL(baseUrl).origin;
}

/** What a form gets that was sent after its session had ended. */
export function sessionEnded(): Fault {
  return new Fault("forbidden", "form without a session", {
    message:
      "You are not signed in any more. Nothing was changed. Go back, load the page again, sign in and try once more.",
  });
}

function crossSiteForm(detail: string): Fault {
  return new Fault("forbidden", detail, {
    message:
      "This form was not sent from Postern's own page, or the page had grown old. Nothing was changed. Go back, load the page again and try once more.",
  });
}
