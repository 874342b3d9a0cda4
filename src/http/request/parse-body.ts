// Parses a request body as its route declares it: a form of a page, a form, or JSON.

import { requireSameOriginForm } from "../guards/session-guard.ts";
import type { Caller, Route, SessionUser } from "../route.ts";
import { decodeForm, decodeJson, requireJsonContentType } from "./body-decoder.ts";

interface BodyContext {
  readonly bodyText: string;
  readonly caller: Caller | SessionUser | undefined;
  readonly baseUrl: string;
}

/** The decoded body, after the CSRF check for forms of pages; undefined for a route that parses the body itself. */
export function parseBody(
  request: Request,
  route: Route,
  { bodyText, caller, baseUrl }: BodyContext,
): unknown {
  if (route.method !== "GET" && (route.auth === "optional-session" || route.auth === "session")) {
    const sessionUser = caller !== undefined && "csrf" in caller ? caller : undefined;
    return requireSameOriginForm(
      decodeForm(request, bodyText),
      request.headers,
      sessionUser,
      baseUrl,
    );
  }
  if (route.rawBody === true) requireJsonContentType(request);
  if (route.body === undefined || route.rawBody === true) return undefined;
  return route.bodyType === "form" ? decodeForm(request, bodyText) : decodeJson(request, bodyText);
}
