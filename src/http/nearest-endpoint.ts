// The endpoint that a caller probably meant by a path that has no route: a wrong base URL, a slash too many, or a typo.

import { Fault } from "../base/fault.ts";
import { closestName } from "../base/text/suggest.ts";
import type { Route } from "./route.ts";
import type { RouteMatch } from "./router.ts";

const METHODS = ["GET", "POST", "PATCH", "DELETE"] as const;
const PATH_MAX_CHARACTERS = 200;
/** Parts of other gateways' and providers' base URLs, before or instead of `/v1`. */
const FOREIGN_ROOT =
  /^\/(?:openai\/deployments\/[^/]+|api|openai|anthropic|proxy|inference|v1|v2|v1beta)(?=\/)/;

export type MatchRoute = (method: string, path: string) => RouteMatch;

/** The 404 of a path without a route, with the nearest endpoint if there is one. */
export function notFoundFault(
  method: string,
  path: string,
  { routes, match }: { readonly routes: readonly Route[]; readonly match: MatchRoute },
): Fault {
  const nearest = path.length > PATH_MAX_CHARACTERS ? undefined : nearestPath(path, routes, match);
  if (nearest === undefined) return new Fault("not_found", "no route");
  // The caller's own method where the endpoint has it.
  const meant = [method, ...METHODS].find((one) => match(one, nearest).kind === "route");
  const step = METHODS.find((one) => one === meant) ?? "GET";
  return new Fault("not_found", "no route", {
    message: `There is no endpoint at ${path}. Did you mean ${step} ${nearest}? All endpoints are listed in /openapi.yaml.`,
    next: [
      { method: step, url: nearest, why: "The nearest endpoint. Check the client's base URL." },
    ],
  });
}

function nearestPath(
  path: string,
  routes: readonly Route[],
  match: MatchRoute,
): string | undefined {
  const known = (candidate: string): boolean => match("GET", candidate).kind !== "none";
  const plain = path.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  const repaired = withoutForeignRoots(plain).flatMap((rest) => [rest, `/v1${rest}`]);
  const found = [plain, ...repaired].find((candidate) => candidate !== path && known(candidate));
  if (found !== undefined) return found;
  const paths = routes.flatMap((route) =>
    route.dialect === "page" || route.path.includes("{") ? [] : [route.path],
  );
  return plain.length < 2 ? undefined : closestName(plain, paths);
}

/** The path, and what remains of it as each leading foreign part is removed. */
function withoutForeignRoots(path: string): readonly string[] {
  const root = FOREIGN_ROOT.exec(path)?.[0];
  return root === undefined ? [path] : [path, ...withoutForeignRoots(path.slice(root.length))];
}
