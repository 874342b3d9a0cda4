/** @jsxImportSource hono/jsx */
// The notice after an action: the form redirects to its page, and the query names what was done.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { Notice } from "../http/pages/components/content.tsx";
import { withQuery } from "./confirm.tsx";

export const DoneQuery = { done: z.string().max(40).optional() };

export function donePath(path: string, done: string): string {
  return withQuery(path, { done });
}

/** Shows nothing if the page has no such notice. */
export function DoneNotice({
  texts,
  done = "",
}: {
  readonly texts: Readonly<Record<string, string>>;
  readonly done?: string | undefined;
}): Child {
  return Object.hasOwn(texts, done) ? <Notice>{texts[done]}</Notice> : null;
}
