/** @jsxImportSource hono/jsx */
// The pages on which a person enters the code of a program and decides.

import type { Child } from "hono/jsx";
import type { Membership } from "../accounts/members.ts";
import { Details } from "../http/pages/components/content.tsx";
import { PostForm } from "../http/pages/components/form.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { FormError } from "../http/pages/page-response.ts";
import type { SessionUser } from "../http/route.ts";
import { DEVICE_PATH } from "./device-login-routes.ts";
import { type DeviceLogin, KEY_LIFETIME_MS } from "./device-login.ts";
import { DecisionButtons, KeyLimitFields, type KeyLimitValues } from "./key-limit.tsx";
import { NoWorkspace, WorkspaceSelect } from "./key-workspaces.tsx";

const KEY_DAYS = KEY_LIFETIME_MS / 86_400_000;

interface CodePageProps {
  readonly user: SessionUser;
  readonly userCode: string;
  readonly error?: string | undefined;
}

export function codeEntryPage({ user, userCode, error }: CodePageProps): PageLayout {
  const hasError = error !== undefined;
  return page(
    "Sign in on a device",
    <>
      <h1>Sign in on a device</h1>
      <p class="intro">Enter the code that the program shows. You are signed in as {user.email}.</p>
      <PostForm user={user} action={DEVICE_PATH} fields={{ do: "find" }}>
        <label for="user_code">Code</label>
        <input
          id="user_code"
          class="code-digits"
          name="user_code"
          type="text"
          value={userCode}
          maxlength={20}
          autocomplete="off"
          autocapitalize="characters"
          spellcheck={false}
          required
          aria-invalid={hasError ? "true" : undefined}
          aria-describedby={hasError ? "wrong-code" : undefined}
        />
        {hasError ? (
          <p class="error" id="wrong-code" role="alert">
            {error}
          </p>
        ) : null}
        <button type="submit">Continue</button>
      </PostForm>
    </>,
  );
}

export interface ConsentPageProps {
  readonly user: SessionUser;
  readonly login: DeviceLogin;
  readonly userCode: string;
  readonly workspaces: readonly Membership[];
  /** The network of the browser, for comparison. */
  readonly network: string;
  readonly values?: ConsentValues | undefined;
  readonly error?: FormError | undefined;
}

interface ConsentValues extends KeyLimitValues {
  readonly account?: string | undefined;
}

export function consentPage(props: ConsentPageProps): PageLayout {
  const { login, userCode, workspaces, network, error } = props;
  return page(
    "Sign in on a device",
    <>
      <h1>Give {login.client} a key?</h1>
      {error === undefined || error.field === "limit_usd" ? null : (
        <p class="notice danger" role="alert">
          {error.message}
        </p>
      )}
      <p class="intro">
        Continue only if you started this yourself, and the program on your device shows the code{" "}
        <strong>{userCode}</strong>. If the link or the code was sent to you, choose “Do not sign
        in”.
      </p>
      <Details
        items={[
          ["Program", `It calls itself ${login.client}`],
          ["Started", `${new Date(login.createdAt).toISOString().slice(11, 16)} UTC`],
          ["From network", <NetworkOf login={login} network={network} />],
          ["It can", "Call models with the workspace's credits, and read its own usage"],
          [
            "It cannot",
            "Spend more than the limit, create keys, buy credits, or change the workspace",
          ],
          ["Until", `${KEY_DAYS} days from now, or until you revoke its key`],
        ]}
      />
      {workspaces.length === 0 ? <NoWorkspace /> : <Decision {...props} />}
    </>,
  );
}

function NetworkOf({ login, network }: Pick<ConsentPageProps, "login" | "network">): Child {
  return login.network === network ? (
    `${login.network}, as this browser`
  ) : (
    <>
      {login.network}. <strong>This browser is in another network: {network}.</strong>
    </>
  );
}

function Decision({ user, userCode, workspaces, values = {}, error }: ConsentPageProps): Child {
  return (
    <PostForm user={user} action={DEVICE_PATH} fields={{ user_code: userCode }}>
      <WorkspaceSelect workspaces={workspaces} selected={values.account} />
      <KeyLimitFields values={values} error={error} />
      <DecisionButtons approve="Sign in" deny="Do not sign in" />
    </PostForm>
  );
}

export function approvedPage(login: DeviceLogin, accountId: string): PageLayout {
  return page(
    "Signed in",
    <>
      <h1>Return to {login.client}</h1>
      <p class="intro">It gets its key within seconds. You can close this page.</p>
      <p>
        <a href={`/console/${accountId}/keys`}>See the keys of the workspace</a>
      </p>
    </>,
  );
}

export function deniedPage(login: DeviceLogin): PageLayout {
  return page(
    "Not signed in",
    <>
      <h1>{login.client} was not signed in</h1>
      <p class="intro">It got no key. The code no longer works.</p>
    </>,
  );
}

function page(title: string, main: Child): PageLayout {
  return { title: `${title} – Postern`, isPrivate: true, main };
}
