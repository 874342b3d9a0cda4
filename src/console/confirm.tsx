/** @jsxImportSource hono/jsx */
// Confirmation of actions that cannot be undone, without scripts: a link reloads the page with a confirmation form in it.

import type { Child } from "hono/jsx";
import { PostForm } from "../http/pages/components/form.tsx";
import type { SessionUser } from "../http/route.ts";

/** A page has at most one confirmation. */
export const CONFIRM_ID = "confirmation";

interface ConfirmLinkProps {
  /** The page with the confirmation. */
  readonly href: string;
  readonly label: string;
  /** What the action applies to, for screen readers, if the label does not say it. */
  readonly subject?: string;
}

export function ConfirmLink({ href, label, subject }: ConfirmLinkProps): Child {
  return (
    <a class="button danger" href={`${href}#${CONFIRM_ID}`}>
      {label} {subject === undefined ? null : <span class="visually-hidden">{subject}</span>}
    </a>
  );
}

interface ConfirmProps {
  readonly user: SessionUser;
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
  readonly confirmLabel: string;
  /** The page without the confirmation. */
  readonly cancelHref: string;
  readonly children: Child;
}

export function Confirm(props: ConfirmProps): Child {
  const { user, action, fields, confirmLabel, cancelHref, children } = props;
  return (
    <PostForm id={CONFIRM_ID} class="confirm" user={user} action={action} fields={fields}>
      <p class="notice danger" role="status">
        {children}
      </p>
      <div class="actions">
        <button type="submit" class="danger">
          {confirmLabel}
        </button>
        <a class="button secondary" href={cancelHref}>
          Cancel
        </a>
      </div>
    </PostForm>
  );
}

interface ConfirmDeleteProps extends Pick<ConfirmProps, "user" | "children"> {
  readonly path: string;
  /** What it is called, such as `preset`. */
  readonly noun: string;
  readonly items: readonly { readonly name: string }[];
  /** The name of the item whose deletion is to be confirmed. */
  readonly asked: string | undefined;
}

/** Nothing for a name that none of the items has. */
export function ConfirmDelete(props: ConfirmDeleteProps): Child {
  const { user, path, noun, items, asked, children } = props;
  if (asked === undefined || !items.some(({ name }) => name === asked)) return null;
  return (
    <Confirm
      user={user}
      action={path}
      fields={{ do: "delete", name: asked }}
      confirmLabel={`Delete ${noun}`}
      cancelHref={path}
    >
      {children}
    </Confirm>
  );
}

/** Adds query parameters to a path, leaving out those that are undefined. */
export function withQuery(
  path: string,
  query: Readonly<Record<string, string | undefined>>,
): string {
  const defined = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  return defined.length === 0 ? path : `${path}?${new URLSearchParams(defined).toString()}`;
}
