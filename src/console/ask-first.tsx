/** @jsxImportSource hono/jsx */
// What cannot be undone is asked about once more: a link opens the same page with the question in it, and only the
// question's form does it. No script is needed.

import type { Child } from "hono/jsx";
import type { Visitor } from "../http/route.ts";
import { Hidden } from "./frame.tsx";

/** Where the question stands on its page: there is one at a time. */
const QUESTION = "question";

interface OpenerProps {
  /** The page with the question. */
  readonly href: string;
  readonly label: string;
  /** Of whom or of what, for those who hear the page and do not see it. */
  readonly of: string;
  readonly kind?: "danger" | "quiet";
}

export function AskingLink({ href, label, of, kind = "danger" }: OpenerProps): Child {
  return (
    <a class={`button ${kind}`} href={`${href}#${QUESTION}`}>
      {label} <span class="visually-hidden">{of}</span>
    </a>
  );
}

interface QuestionProps {
  readonly visitor: Visitor;
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
  readonly yes: string;
  readonly no: string;
  /** The page without the question. */
  readonly back: string;
  readonly children: Child;
}

export function Question(props: QuestionProps): Child {
  const { visitor, action, fields, yes, no, back, children } = props;
  return (
    <form id={QUESTION} method="post" action={action}>
      <Hidden visitor={visitor} fields={fields} />
      <p class="notice danger" role="status">
        {children}
      </p>
      <div class="choices">
        <button type="submit" class="danger">
          {yes}
        </button>
        <a class="button quiet" href={back}>
          {no}
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
