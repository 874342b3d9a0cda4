// Responses that the HTML pages share: a rendered page, a redirect, and the errors that a form shows.

import { Fault } from "../../base/fault.ts";
import { faultText } from "./fault-text.ts";
import { type PageLayout, pageHeaders, pageScripts, renderPage } from "./layout.tsx";

export interface PageResponseOptions {
  readonly status?: number;
  /** `set-cookie` values. */
  readonly cookies?: readonly string[];
}

export function pageResponse(
  layout: PageLayout,
  { status = 200, cookies = [] }: PageResponseOptions = {},
): Response {
  const headers = new Headers({
    ...pageHeaders({ ...layout, scripts: pageScripts(layout) }),
    "cache-control": "no-store",
  });
  for (const cookie of cookies) headers.append("set-cookie", cookie);
  return new Response(renderPage(layout), { status, headers });
}

export function redirect(location: string, cookies: readonly string[] = []): Response {
  const headers = new Headers({
    location,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
  });
  for (const cookie of cookies) headers.append("set-cookie", cookie);
  return new Response(null, { status: 303, headers });
}

/** A refusal that names a field is corrected there, such as an amount beyond an allowance. */
function isCorrectable({ status, options }: Fault): boolean {
  return status === 400 || status === 409 || (status === 403 && options.param !== undefined);
}

/** The message of an error that the user can correct on the page. Any other error is rethrown. */
export function userErrorMessage(error: unknown): string {
  if (error instanceof Fault && isCorrectable(error)) return faultText(error);
  throw error;
}

/** What is wrong with a submitted form. */
export interface FormError {
  /** The name of the field; undefined if the message is about the whole form. */
  readonly field: string | undefined;
  readonly message: string;
}

/** The error that a form shows beside its field. Any error that the user cannot correct is rethrown. */
export function formErrorOf(error: unknown): FormError {
  const message = userErrorMessage(error);
  return { field: error instanceof Fault ? error.options.param : undefined, message };
}
