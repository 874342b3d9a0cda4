/** @jsxImportSource hono/jsx */
// The HTML page of an error.

import type { Fault } from "../../base/fault.ts";
import { faultText } from "./fault-text.ts";
import { pageHeaders, renderPage } from "./layout.tsx";
import { contactHref } from "./operator-links.ts";

/** The path is that of the request. */
export type RenderFaultPage = (fault: Fault, requestId: string, path: string) => Response;

/** With the support address, if the operator has one. */
export function createFaultPage(contact: string | undefined): RenderFaultPage {
  return (fault, requestId, path) =>
    faultPage(fault, { requestId, isOperatorPage: path.startsWith("/operator"), contact });
}

interface FaultContext {
  readonly requestId: string;
  readonly isOperatorPage: boolean;
  readonly contact: string | undefined;
}

function faultPage(fault: Fault, { requestId, isOperatorPage, contact }: FaultContext): Response {
  const isNotFound = fault.status === 404;
  const title = isNotFound ? "Not found" : "Something went wrong";
  const layout = {
    title,
    isPrivate: true,
    main: (
      <>
        <h1>{title}</h1>
        <p class="intro">{faultText(fault)}</p>
        <p>
          {isNotFound ? "Check the URL, or go" : "Go"} to{" "}
          {isOperatorPage ? (
            <a href="/operator">the operator pages</a>
          ) : (
            <>
              <a href="/console">your workspaces</a> or the <a href="/">home page</a>
            </>
          )}
          .
        </p>
        <p class="note">
          Request id: <code>{requestId}</code>
          {contact === undefined ? null : (
            <>
              . Support: <a href={contactHref(contact)}>{contact}</a>
            </>
          )}
        </p>
      </>
    ),
  };
  const headers = new Headers({ ...pageHeaders(), "cache-control": "no-store" });
  const { retryAfterSeconds } = fault.options;
  if (retryAfterSeconds !== undefined)
    headers.set("retry-after", String(Math.max(1, Math.ceil(retryAfterSeconds))));
  for (const [name, value] of Object.entries(fault.options.headers ?? {})) headers.set(name, value);
  return new Response(renderPage(layout), { status: fault.status, headers });
}
