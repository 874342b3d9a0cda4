/** @jsxImportSource hono/jsx */
// Where an operator comes in, and what somebody sees who may not.

import type { PageLayout } from "../../http/pages/layout.tsx";
import { OPERATOR_SIGN_IN_PATH } from "../page-context.ts";

export interface SignInPageProps {
  readonly providerName: string | undefined;
  readonly returnTo: string;
  /** A form came after its session had ended. */
  readonly isSessionExpired: boolean;
}

export function signInPage({
  providerName,
  returnTo,
  isSessionExpired,
}: SignInPageProps): PageLayout {
  const begin = `${OPERATOR_SIGN_IN_PATH}/begin?${new URLSearchParams({ return_to: returnTo }).toString()}`;
  return {
    title: "Operator – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Operator</h1>
        {isSessionExpired ? (
          <p class="error" role="alert">
            You were not signed in any more when the form arrived. Nothing was changed. Sign in, and
            send it once more.
          </p>
        ) : null}
        <p class="intro">These pages are for those who run this gateway.</p>
        <p>
          Being signed in as a customer does not count here. Every sign-in is written down, and so
          is every attempt of somebody who is no operator.
        </p>
        {providerName === undefined ? (
          <p class="notice warn">
            Sign-in is not set up on this gateway: <code>OIDC_ISSUER</code> must be set.
          </p>
        ) : (
          <p>
            <a class="button" href={begin}>
              Sign in as an operator
            </a>
          </p>
        )}
      </>
    ),
  };
}

export function refusedPage(message: string): PageLayout {
  return {
    title: "Not signed in – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>You are not signed in</h1>
        <p class="intro">{message}</p>
        <p>
          <a href={OPERATOR_SIGN_IN_PATH}>Sign in with another account</a>
        </p>
      </>
    ),
  };
}
