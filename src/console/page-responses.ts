// How the console's routes answer: a page, the way to another one, or what the person can mend.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import {
  type PageLayout,
  pageHeaders,
  type PagePolicy,
  renderPage,
} from "../http/pages/layout.tsx";
import { faultText } from "../http/pages/fault-text.ts";

export const PAGE_DEFAULTS = {
  tag: "Console",
  dialect: "page",
  hidden: true,
  faults: ["not_found", "forbidden"],
  responses: { 200: { description: "A page.", contentType: "text/html" } },
} as const;

export const AccountPath = z.object({ account: z.string() });

/** What the person can mend is said on the page; anything else is thrown on. */
export function userErrorMessage(error: unknown): string {
  if (error instanceof Fault && (error.status === 400 || error.status === 409))
    return faultText(error);
  throw error;
}

export function pageResponse(frame: PageLayout, status = 200, policy: PagePolicy = {}): Response {
  return new Response(renderPage(frame), {
    status,
    headers: { ...pageHeaders(policy), "cache-control": "no-store" },
  });
}

export function redirect(location: string): Response {
  return new Response(null, {
    status: 303,
    headers: { location, "cache-control": "no-store", "referrer-policy": "no-referrer" },
  });
}
