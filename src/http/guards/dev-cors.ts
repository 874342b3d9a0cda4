// Pages of other sites in the browser of somebody who develops: a gateway on the loopback has no limits, and the calls go
// on the developer's own provider keys.

import { Fault } from "../../base/fault.ts";
import { isLoopbackHost } from "../../base/loopback.ts";

/** Whether a web page sent the request that is not of this machine; only a browser says where a request comes from. */
export function isForeignOrigin(headers: Headers): boolean {
  const origin = headers.get("origin");
  if (origin === null) return false;
  return !URL.canParse(origin) || !isLoopbackHost(new URL(origin).hostname);
}

export function requireLocalOrigin(headers: Headers): void {
  if (!isForeignOrigin(headers)) return;
  throw new Fault("forbidden", "a page of elsewhere asked a gateway in development", {
    message:
      "This gateway is in development, where no web page but one of this machine may open an account. Call without an `origin` header, or set POSTERN_BASE_URL to the gateway's public address, which ends development.",
    param: "origin",
  });
}

/** Without these headers a browser neither sends the call of another page nor shows it the answer. */
export function removeCorsHeaders(headers: Headers): void {
  const corsNames = [...headers.keys()].filter((name) => name.startsWith("access-control-"));
  for (const name of corsNames) headers.delete(name);
}
