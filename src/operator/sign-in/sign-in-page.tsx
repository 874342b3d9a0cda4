/** @jsxImportSource hono/jsx */
// The sign-in page of operators, and the page for people who are not operators.

import type { PageLayout } from "../../http/pages/layout.tsx";
import { OPERATOR_SIGN_IN_PATH } from "../page-context.ts";

export interface SignInPageProps {
  readonly providerName: string | undefined;
  readonly returnTo: string;
  /** A form arrived after its session had ended. */
  readonly isSessionExpired: boolean;
}

export function signInPage({
  providerName,
  returnTo,
  isSessionExpired,
}: SignInPageProps): PageLayout {
  const begin = `${OPERATOR_SIGN_IN_PATH}/begin?${new URLSearchParams({ return_to: returnTo }).toString()}`;
  return {
    title: "Operator sign-in – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Operator sign-in</h1>
        {isSessionExpired ? (
          <p class="error" role="alert">
            Your session ended before the form arrived. Nothing was changed. Sign in and send the
            form again.
          </p>
        ) : null}
        <p class="intro">These pages are for the operators of this gateway.</p>
        <p>
          A customer's session is not valid here. Every sign-in is recorded, and so is every attempt
          by a person who is not an operator.
        </p>
        {providerName === undefined ? (
          <p class="notice warn">
            Sign-in is not configured on this gateway. Set <code>OIDC_ISSUER</code>.
          </p>
        ) : (
          <p>
            <a class="button" href={begin}>
              Sign in as operator
            </a>
          </p>
        )}
      </>
    ),
  };
}

export function rejectedPage(message: string): PageLayout {
  return {
    title: "Not signed in – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Not signed in</h1>
        <p class="intro">{message}</p>
        <p>
          <a href={OPERATOR_SIGN_IN_PATH}>Sign in with another account</a>
        </p>
      </>
    ),
  };
}
