/** @jsxImportSource hono/jsx */
// The pages around signing in and out.

import type { Child } from "hono/jsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";
import type { SessionRecord } from "./sessions.ts";

export function signInFailedPage(message: string, returnTo: string): PageLayout {
  const retryUrl = `/signin?${new URLSearchParams({ return_to: returnTo, switch: "1" }).toString()}`;
  return {
    title: "Not signed in",
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

export function signedOutPage(visitor: SessionUser | undefined): PageLayout {
  return {
    title: "Signed out",
    isPrivate: true,
    main:
      visitor === undefined ? (
        <>
          <h1>You are signed out</h1>
          <p>
            Your identity provider may still know you in this browser. On a computer that others
            use, sign out there too.
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
          <p>You are signed in as {visitor.email}.</p>
          <form method="post" action="/signout">
            <input type="hidden" name="csrf" value={visitor.csrf} />
            <button type="submit">Sign out</button>
          </form>
        </>
      ),
  };
}

export function sessionsPage(visitor: SessionUser, sessions: readonly SessionRecord[]): PageLayout {
  return {
    title: "Where you are signed in",
    isPrivate: true,
    main: (
      <>
        <h1>Where you are signed in</h1>
        <p>
          As {visitor.email}. A session that you do not know is ended here, and cannot be used from
          that moment on.
        </p>
        {sessions.map((session) => (
          <SessionCard visitor={visitor} session={session} />
        ))}
        {sessions.length < 2 ? null : (
          <form method="post" action="/sessions">
            <input type="hidden" name="csrf" value={visitor.csrf} />
            <button type="submit" name="session" value="others" class="danger">
              End all others
            </button>
          </form>
        )}
      </>
    ),
  };
}

interface SessionCardProps {
  readonly visitor: SessionUser;
  readonly session: SessionRecord;
}

function SessionCard({ visitor, session }: SessionCardProps): Child {
  const isCurrent = session.id === visitor.sessionId;
  return (
    <section class="card" aria-labelledby={session.id}>
      <h2 id={session.id}>
        {isCurrent ? "This browser" : session.browser.slice(0, 80) || "Unknown browser"}
      </h2>
      <p class="note">
        Since <Timestamp at={session.createdAt} />, last used <Timestamp at={session.seenAt} />,
        from the network {session.network}
      </p>
      <form method="post" action="/sessions">
        <input type="hidden" name="csrf" value={visitor.csrf} />
        <button
          type="submit"
          name="session"
          value={session.id}
          class="secondary"
          aria-describedby={session.id}
        >
          {isCurrent ? "Sign out" : "End this session"}
        </button>
      </form>
    </section>
  );
}

function Timestamp({ at }: { readonly at: number }): Child {
  const iso = new Date(at).toISOString();
  return <time datetime={iso}>{`${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`}</time>;
}
