/** @jsxImportSource hono/jsx */
// The page on which a person gives an app a key, and picks its limit, expiry and models.

import type { Child } from "hono/jsx";
import type { Membership } from "../accounts/members.ts";
import { nanoFromUsd } from "../base/money/money.ts";
import { LIMIT_WINDOWS } from "../base/money/spend-window.ts";
import { capitalize } from "../base/text/format.ts";
import { DecisionButtons } from "../device-login/key-limit.tsx";
import { NoWorkspace, WorkspaceSelect } from "../device-login/key-workspaces.tsx";
import { Details } from "../http/pages/components/content.tsx";
import { Field, PostForm, TextField } from "../http/pages/components/form.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { FormError } from "../http/pages/page-response.ts";
import type { SessionUser } from "../http/route.ts";
import { describeScopes, grantedScopes, MODEL_CALL_SCOPES } from "../http/scopes.ts";
import { formTarget, isLoopbackRedirect } from "../mcp-sign-in/redirect-uris.ts";
import { CONNECT_PATH, type ConnectChoices, type ConnectRequest } from "./connect-request.ts";

const LIMIT_DEFAULT_USD = "10";
const DAYS_DEFAULT = "90";
/** How long the key works; the empty value means until it is revoked. */
export const LIFETIMES = {
  "7": "7 days",
  "30": "30 days",
  "90": "90 days",
  "365": "a year",
  "": "until you revoke it",
} as const;

export interface ConnectPageProps {
  readonly user: SessionUser;
  readonly request: ConnectRequest;
  readonly workspaces: readonly Membership[];
  readonly account?: string | undefined;
  readonly choices: ConnectChoices;
  readonly error?: FormError;
}

export function connectPage(props: ConnectPageProps): PageLayout {
  const { user, request, workspaces, error } = props;
  const { app, callbackUrl } = request;
  return {
    title: `Connect ${app} – Postern`,
    isPrivate: true,
    formTargets: [formTarget(callbackUrl)],
    main: (
      <>
        <h1>Connect {app}?</h1>
        {error === undefined || isShownAtField(error) ? null : (
          <p class="notice danger" role="alert">
            {error.message}
          </p>
        )}
        <p class="intro">
          The app gets a key of your workspace. Continue only if you started this yourself, on a
          page that you trust. You are signed in as {user.email}.
        </p>
        <Details
          items={[
            ["Returns to", <Target callbackUrl={callbackUrl} />],
            ["It can", capitalize(describeScopes(grantedScopes(MODEL_CALL_SCOPES, true)))],
            ["It cannot", "Spend more than the limit, create keys, or change the workspace"],
          ]}
        />
        {workspaces.length === 0 ? <NoWorkspace /> : <Decision {...props} />}
      </>
    ),
  };
}

function Target({ callbackUrl }: { readonly callbackUrl: string }): Child {
  const { origin, pathname } = new URL(callbackUrl);
  return (
    <>
      <code>
        <bdi>{`${origin}${pathname}`}</bdi>
      </code>
      {isLoopbackRedirect(callbackUrl) ? (
        <strong>: a program on this computer, whose name is not verified.</strong>
      ) : null}
    </>
  );
}

function isShownAtField({ field }: FormError): boolean {
  return field === "limit" || field === "models";
}

function Decision({ user, request, workspaces, account, choices, error }: ConnectPageProps): Child {
  const errorAt = (field: string) => (error?.field === field ? error.message : undefined);
  const { limit = "", reset = "month", days = DAYS_DEFAULT, models = "" } = choices;
  const isShown = error !== undefined || nanoFromUsd(limit) !== undefined;
  return (
    <PostForm
      user={user}
      action={CONNECT_PATH}
      fields={{
        callback_url: request.callbackUrl,
        code_challenge: request.codeChallenge,
        code_challenge_method: "S256",
      }}
    >
      {request.state === undefined ? null : (
        <input type="hidden" name="state" value={request.state} />
      )}
      <WorkspaceSelect workspaces={workspaces} selected={account} />
      <Field
        id="limit"
        name="limit"
        label="Limit (USD)"
        inputMode="decimal"
        value={isShown ? limit : LIMIT_DEFAULT_USD}
        error={errorAt("limit")}
        isRequired
      />
      <label for="reset">Limit resets</label>
      <select id="reset" name="reset">
        <option value="">never</option>
        {LIMIT_WINDOWS.map((window) => (
          <option value={window} selected={window === reset}>
            every {window}
          </option>
        ))}
      </select>
      <label for="days">Key works for</label>
      <select id="days" name="days">
        {Object.entries(LIFETIMES).map(([value, label]) => (
          <option value={value} selected={value === days}>
            {label}
          </option>
        ))}
      </select>
      <TextField
        id="models"
        name="models"
        label="Models"
        hint="One per line, such as openai/*. Leave empty for all models."
        value={models.replaceAll(",", "\n")}
        error={errorAt("models")}
      />
      <DecisionButtons approve="Connect" deny="Cancel" />
    </PostForm>
  );
}

/** Shown instead of a redirect: before a person decides, nothing leads to the app's URL. */
export function connectErrorPage(description: string): PageLayout {
  return {
    title: "Not connected – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>The app cannot be connected</h1>
        <p class="intro">{description}</p>
        <p>
          How apps connect is in the <a href="/docs/sign-in-with-postern">documentation</a>.
        </p>
      </>
    ),
  };
}
