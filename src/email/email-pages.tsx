/** @jsxImportSource hono/jsx */
// The pages about emails.

import type { Child } from "hono/jsx";
import { formatDateTime, pluralize } from "../base/text/format.ts";
import { PostForm } from "../http/pages/components/form.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";
import type { EmailMessage } from "./email-message.ts";
import { EMAIL_CATEGORIES, type EmailCategory } from "./email-types.ts";
import type { Email } from "./emails.ts";

export function emailSettingsPage({
  user,
  optOuts,
  isSaved,
  isSmtpSet,
}: {
  readonly user: SessionUser;
  readonly optOuts: ReadonlySet<EmailCategory>;
  readonly isSaved: boolean;
  readonly isSmtpSet: boolean;
}): PageLayout {
  // Safe because these are the keys of the table.
  const categories = Object.entries(EMAIL_CATEGORIES) as [EmailCategory, string][];
  return {
    title: "Emails – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Emails</h1>
        {isSaved ? (
          <p class="notice" role="status">
            Saved.
          </p>
        ) : null}
        {isSmtpSet ? null : (
          <p class="notice warn">This gateway sends no emails: its operator has not set it up.</p>
        )}
        <PostForm user={user} action="/emails" submit="Save">
          <fieldset>
            <legend>Send an email to {user.email} when</legend>
            {categories.map(([name, label]) => (
              <div class="option">
                <input type="checkbox" id={name} name={name} checked={!optOuts.has(name)} />
                <label for={name}>{label}</label>
              </div>
            ))}
          </fieldset>
        </PostForm>
        <p class="hint">
          Owners and admins of a workspace get all of these, members with the role billing those
          about money.
        </p>
      </>
    ),
    footer: <BackLink user={user} />,
  };
}

export interface ListedEmail {
  readonly email: Email;
  readonly message: EmailMessage;
}

export function sentEmailsPage({
  user,
  listed,
  isSmtpSet,
}: {
  readonly user: SessionUser;
  readonly listed: readonly ListedEmail[];
  readonly isSmtpSet: boolean;
}): PageLayout {
  return {
    title: "Sent emails – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Sent emails</h1>
        <p>
          The latest emails to all people, in development mode only.{" "}
          {isSmtpSet ? "" : "They stay pending, because POSTERN_SMTP_URL is not set."}
        </p>
        {listed.length === 0 ? <p>No emails yet.</p> : null}
        {listed.map(({ email, message }) => (
          <EmailCard email={email} message={message} />
        ))}
      </>
    ),
    footer: <BackLink user={user} />,
  };
}

function EmailCard({ email, message }: ListedEmail): Child {
  const { id, address, createdAt, status, tries, error } = email;
  return (
    <article class="card" aria-labelledby={id}>
      <h2 id={id}>{message.subject}</h2>
      <p>
        To {address}, {formatDateTime(createdAt)}: {status} after {pluralize(tries, "attempt")}
        {error === null ? "" : ` (${error})`}
      </p>
      <pre tabindex={0}>{message.text}</pre>
    </article>
  );
}

function BackLink({ user }: { readonly user: SessionUser }): Child {
  return (
    <p>
      Signed in as {user.email}. <a href="/console">Console</a> ·{" "}
      <a href="/sessions">Your sessions</a>
    </p>
  );
}
