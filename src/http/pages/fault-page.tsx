/** @jsxImportSource hono/jsx */
// How a refusal looks to a human.

import type { Fault } from "../../base/fault.ts";
import { pageHeaders, renderPage } from "./layout.tsx";
import { faultText } from "./fault-text.ts";

export function faultPage(fault: Fault, requestId: string): Response {
  const layout = {
    title: "That did not work",
    isPrivate: true,
    main: (
      <>
        <h1>That did not work</h1>
        <p class="intro">{faultText(fault)}</p>
        {fault.code !== "not_found" ? null : (
          <p>
            Check the address, or go on from <a href="/console">your workspaces</a> or{" "}
            <a href="/">the start page</a>.
          </p>
        )}
        <p class="note">
          Request <code>{requestId}</code>
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
