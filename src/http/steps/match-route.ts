// Finds the route of a request, or the fault that says which endpoint was probably meant.

import { Fault } from "../../base/fault.ts";
import { methodFault, notFoundFault } from "../nearest-endpoint.ts";
import type { RequestContext } from "../request-context.ts";
import { docsPathOf, type Route } from "../route.ts";
import type { MatchRoute, RouteMatch } from "../router.ts";

export interface MatchRouteDeps {
  readonly routes: readonly Route[];
  /** A more specific 404 for endpoints of OpenAI's and Anthropic's APIs that are not supported. */
  readonly unsupportedEndpointFault?: (path: string) => Fault | undefined;
}

export function createMatchRoute(
  deps: MatchRouteDeps,
  match: MatchRoute,
): (context: RequestContext) => Route {
  return (context) => {
    const found = match(context.request.method, context.path);
    if (found.kind !== "route") throw routeFault(deps, match, context, found);
    context.match = found;
    return found.route;
  };
}

function routeFault(
  { routes, unsupportedEndpointFault }: MatchRouteDeps,
  match: MatchRoute,
  { request, path }: RequestContext,
  found: Exclude<RouteMatch, { kind: "route" }>,
): Fault {
  const unsupported = (one: string): Fault | undefined => unsupportedEndpointFault?.(one);
  const fault = unsupported(path);
  if (fault !== undefined) return fault;
  if (found.kind === "none")
    return notFoundFault(request.method, path, { routes, match, unsupported });
  const allow = found.allow.join(", ");
  // Codex continues over HTTP only after this status; after any other it repeats the upgrade.
  if (request.headers.get("upgrade")?.toLowerCase() === "websocket")
    return new Fault("method_not_allowed", "WebSockets are not supported", {
      status: 426,
      message: `This endpoint does not accept WebSockets. Send ${allow} requests over HTTP.`,
      headers: { allow, upgrade: "HTTP/1.1" },
    });
  const [other = ""] = found.allow;
  const documented = match(other, path);
  return methodFault(
    request.method,
    path,
    found.allow,
    documented.kind === "route" ? docsPathOf(documented.route) : undefined,
  );
}
