/** @jsxImportSource hono/jsx */
// What cannot be undone is asked about once more: a link opens the same page with the question in it, and only the
// question's form does it. No script is needed.

import type { Child } from "hono/jsx";
import type { SessionUser } from "../http/route.ts";
import { HiddenFields } from "./console-layout.tsx";

/** Where the question stands on its page: there is one at a time. */
const CONFIRM_ID = "question";

interface ConfirmLinkProps {
  /** The page with the question. */
  readonly href: string;
  readonly label: string;
  /** Of whom or of what, for those who hear the page and do not see it. */
  readonly subject: string;
  readonly kind?: "danger" | "secondary";
}

export function ConfirmLink({ href, label, subject, kind = "danger" }: ConfirmLinkProps): Child {
  return (
    <a class={`button ${kind}`} href={`${href}#${CONFIRM_ID}`}>
      {label} <span class="visually-hidden">{subject}</span>
    </a>
  );
}

interface ConfirmProps {
  readonly user: SessionUser;
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
  readonly confirmLabel: string;
  readonly cancelLabel: string;
  /** The page without the question. */
  readonly cancelHref: string;
  readonly children: Child;
}

export function Confirm(props: ConfirmProps): Child {
  const { user, action, fields, confirmLabel, cancelLabel, cancelHref, children } = props;
  return (
    <form id={CONFIRM_ID} method="post" action={action}>
      <HiddenFields user={user} fields={fields} />
      <p class="notice danger" role="status">
        {children}
      </p>
      <div class="actions">
        <button type="submit" class="danger">
          {confirmLabel}
        </button>
        <a class="button secondary" href={cancelHref}>
          {cancelLabel}
        </a>
      </div>
    </form>
  );
}

/** An address with what it asks for, and nothing of what is not there. */
export function withQuery(
  path: string,
  query: Readonly<Record<string, string | undefined>>,
): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`;
}
