/** @jsxImportSource hono/jsx */
// The pages for a failed sign-in, signing out and sessions.

import type { Child } from "hono/jsx";
import { type SentForm, SIGN_IN_PATH } from "../http/guards/session-guard.ts";
import { Details } from "../http/pages/components/content.tsx";
import { Field, PostForm } from "../http/pages/components/form.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";
import type { SessionRecord } from "./sessions.ts";

export interface SignInPageProps {
  /** The person of a session that this sign-in replaces. */
  readonly user: SessionUser | undefined;
  readonly returnTo: string;
  /** The name of the gateway's own identity provider; undefined without one. */
  readonly providerName: string | undefined;
  readonly email?: string;
  readonly error?: string;
}

/** Where workspaces have single sign-on, the email address says which identity provider signs the person in. */
export function signInPage({
  user,
  returnTo,
  providerName,
  email,
  error,
}: SignInPageProps): PageLayout {
  return {
    title: "Sign in – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Sign in</h1>
        <PostForm user={user} action={SIGN_IN_PATH} fields={{ return_to: returnTo }}>
          <Field
            id="email"
            name="email"
            type="email"
            label="Email"
            value={email}
            error={error}
            autoComplete="username"
            isRequired
            hint="If your organization has single sign-on, you continue there."
          />
          <div class="actions">
            <button type="submit">Continue</button>
            {providerName === undefined ? null : (
              <a class="button secondary" href={ownSignInPath(returnTo)}>
                Sign in with {providerName}
              </a>
            )}
          </div>
        </PostForm>
      </>
    ),
  };
}

/** The sign-in with the gateway's identity provider, without asking for the email first. */
export function ownSignInPath(returnTo: string): string {
  return `${SIGN_IN_PATH}?${new URLSearchParams({ return_to: returnTo, direct: "true" }).toString()}`;
}

/** A form cannot redirect to another host, so this page goes on. */
export function continuePage(path: string): PageLayout {
  return {
    title: "Continue to sign in – Postern",
    isPrivate: true,
    refreshTo: path,
    main: (
      <>
        <h1>Continue to sign in</h1>
        <p>
          <a class="button" href={path}>
            Continue
          </a>
        </p>
      </>
    ),
  };
}

export function signInFailedPage(message: string, retryUrl: string): PageLayout {
  return {
    title: "Not signed in – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>You are not signed in</h1>
        <p class="intro">{message}</p>
        <p>
          <a class="button" href={retryUrl}>
            Try again
          </a>
        </p>
      </>
    ),
  };
}

export function signedOutPage(user: SessionUser | undefined): PageLayout {
  return {
    title: "Signed out – Postern",
    isPrivate: true,
    main:
      user === undefined ? (
        <>
          <h1>You are signed out</h1>
          <p>
            You may still be signed in at your identity provider. On a shared computer, sign out
            there too.
          </p>
          <p>
            <a class="button secondary" href="/signin">
              Sign in again
            </a>
          </p>
        </>
      ) : (
        <>
          <h1>Sign out?</h1>
          <p>You are signed in as {user.email}.</p>
          <PostForm user={user} action="/signout">
            <button type="submit">Sign out</button>
          </PostForm>
        </>
      ),
  };
}

/** Fields that the page sets, which say nothing to the person. */
const INTERNAL_FIELDS: ReadonlySet<string> = new Set(["do", "once"]);

/** The form is sent again only when the person says so. */
export function keptFormPage(user: SessionUser, { path, fields }: SentForm): PageLayout {
  const typed = Object.entries(fields).filter(
    ([name, value]) => !INTERNAL_FIELDS.has(name) && value.trim() !== "",
  );
  return {
    title: "Send the form again – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Send the form again?</h1>
        <p class="intro">
          Your session had ended when you sent this form, so nothing was changed. Keys and codes
          were not kept.
        </p>
        <Details
          items={[
            ["Page", <code>{path}</code>],
            ...typed.map(([name, value]) => [name.replaceAll("_", " "), value] as const),
          ]}
        />
        <PostForm user={user} action={path} fields={fields}>
          <div class="actions">
            <button type="submit">Send again</button>
            <a class="button secondary" href="/console">
              Cancel
            </a>
          </div>
        </PostForm>
      </>
    ),
  };
}

export function sessionsPage(
  user: SessionUser,
  sessions: readonly SessionRecord[],
  sendsEmails: boolean,
): PageLayout {
  return {
    title: "Your sessions – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Your sessions</h1>
        <p>
          You are signed in as {user.email}. End every session that you do not recognize; it stops
          working immediately.
        </p>
        {sessions.map((session) => (
          <SessionCard user={user} session={session} />
        ))}
        {sessions.length < 2 ? null : (
          <PostForm user={user} action="/sessions">
            <button type="submit" name="session" value="others" class="danger">
              End all other sessions
            </button>
          </PostForm>
        )}
      </>
    ),
    footer: (
      <p>
        <a href="/console">Console</a>
        {sendsEmails ? (
          <>
            {" "}
            · <a href="/emails">Your emails</a>
          </>
        ) : null}
      </p>
    ),
  };
}

interface SessionCardProps {
  readonly user: SessionUser;
  readonly session: SessionRecord;
}

function SessionCard({ user, session }: SessionCardProps): Child {
  const isCurrent = session.id === user.sessionId;
  return (
    <section class="card" aria-labelledby={session.id}>
      <h2 id={session.id}>
        {isCurrent ? "This browser" : session.browser.slice(0, 80) || "Unknown browser"}
      </h2>
      <p class="note">
        Since <Timestamp at={session.createdAt} />, last used <Timestamp at={session.seenAt} />,
        network {session.network}
      </p>
      <PostForm user={user} action="/sessions">
        <button
          type="submit"
          name="session"
          value={session.id}
          class="secondary"
          aria-describedby={session.id}
        >
          {isCurrent ? "Sign out" : "End session"}
        </button>
      </PostForm>
    </section>
  );
}

function Timestamp({ at }: { readonly at: number }): Child {
  const iso = new Date(at).toISOString();
  return <time datetime={iso}>{`${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`}</time>;
}
