/** @jsxImportSource hono/jsx */
// The page on which a person decides about the sign-in of an MCP client.

import type { Child } from "hono/jsx";
import type { Membership } from "../accounts/members.ts";
import { capitalize } from "../base/text/format.ts";
import { DAY_MS } from "../base/time.ts";
import { KEY_LIFETIME_MS } from "../device-login/device-login.ts";
import {
  DecisionButtons,
  KeyLimitFields,
  type KeyLimitValues,
} from "../device-login/key-limit.tsx";
import { NoWorkspace, WorkspaceSelect } from "../device-login/key-workspaces.tsx";
import { Details } from "../http/pages/components/content.tsx";
import { PostForm } from "../http/pages/components/form.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { FormError } from "../http/pages/page-response.ts";
import type { SessionUser } from "../http/route.ts";
import { describeScopes, grantedScopes } from "../http/scopes.ts";
import { AUTHORIZE_PATH, type AuthorizationRequest } from "./authorize-request.ts";
import { formTarget, isLoopbackRedirect, redirectTarget } from "./redirect-uris.ts";

const KEY_DAYS = KEY_LIFETIME_MS / DAY_MS;

export interface ConsentValues extends KeyLimitValues {
  readonly account?: string | undefined;
}

interface ConsentPageProps {
  readonly user: SessionUser;
  readonly request: AuthorizationRequest;
  /** The request as the form sends it back. */
  readonly sealed: string;
  readonly workspaces: readonly Membership[];
  readonly values?: ConsentValues;
  readonly error?: FormError;
}

export function consentPage(props: ConsentPageProps): PageLayout {
  const { user, request, workspaces, error } = props;
  const { clientName, clientHost, redirectUri, scopes } = request;
  const main = (
    <>
      <h1>Connect {clientName}?</h1>
      {error === undefined || error.field !== undefined ? null : (
        <p class="notice danger" role="alert">
          {error.message}
        </p>
      )}
      <p class="intro">
        It gets a key of your workspace. Continue only if you started this yourself. You are signed
        in as {user.email}.
      </p>
      <Details
        items={[
          [
            "Client",
            clientHost === undefined
              ? `It calls itself ${clientName}`
              : `${clientName}, by ${clientHost}`,
          ],
          ["Returns to", <Target redirectUri={redirectUri} />],
          ["It can", capitalize(describeScopes(grantedScopes(scopes, true)))],
          ["It cannot", "Spend more than the limit, or change the workspace"],
          ["Until", `${KEY_DAYS} days from now, or until you revoke its key`],
        ]}
      />
      {workspaces.length === 0 ? <NoWorkspace /> : <Decision {...props} />}
    </>
  );
  return {
    title: `Connect ${clientName} – Postern`,
    isPrivate: true,
    main,
    formTargets: [formTarget(redirectUri)],
  };
}

function Target({ redirectUri }: { readonly redirectUri: string }): Child {
  return isLoopbackRedirect(redirectUri) ? (
    <>
      {redirectTarget(redirectUri)}:{" "}
      <strong>a program on this computer, whose name is not verified.</strong>
    </>
  ) : (
    redirectTarget(redirectUri)
  );
}

function Decision({ user, sealed, workspaces, values = {}, error }: ConsentPageProps): Child {
  return (
    <PostForm user={user} action={AUTHORIZE_PATH} fields={{ request: sealed }}>
      <WorkspaceSelect workspaces={workspaces} selected={values.account} />
      <KeyLimitFields values={values} error={error} />
      <DecisionButtons approve="Connect" deny="Cancel" />
    </PostForm>
  );
}

/** `back` leads to the client with the error, if the person follows it. */
export function requestErrorPage(description: string, back: string | undefined): PageLayout {
  return {
    title: "Not connected – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>The client cannot be connected</h1>
        <p class="intro">{description}</p>
        {back === undefined ? null : (
          <p>
            <a href={back}>Return to {redirectTarget(back)}</a>
          </p>
        )}
      </>
    ),
  };
}
