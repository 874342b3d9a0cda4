/** @jsxImportSource hono/jsx */
// The page after a form was sent without a session: sign in, then send it again.

import { KEPT_FORM_PATH, SIGN_IN_PATH } from "../guards/session-guard.ts";
import { pageResponse } from "./page-response.ts";

/** `keptForm` is the cookie that keeps what was typed; undefined if it cannot be kept. */
export function sessionEndedPage(path: string, keptForm: string | undefined): Response {
  const returnTo = keptForm === undefined ? path : KEPT_FORM_PATH;
  const signIn = `${SIGN_IN_PATH}?${new URLSearchParams({ return_to: returnTo }).toString()}`;
  const layout = {
    title: "Your session has ended – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Your session has ended</h1>
        <p class="intro">Nothing was changed. Sign in, then send the form again.</p>
        <p>
          {keptForm === undefined
            ? "What you typed is too long to be kept. Go back to copy it before you sign in."
            : "What you typed is kept for 30 minutes, except keys and codes."}
        </p>
        <p>
          <a class="button" href={signIn}>
            Sign in
          </a>
        </p>
      </>
    ),
  };
  return pageResponse(layout, {
    status: 403,
    cookies: keptForm === undefined ? [] : [keptForm],
  });
}
