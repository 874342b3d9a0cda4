// The endpoint that a caller probably meant by a path that has no route: a wrong base URL, a slash too many, or a typo.

import { Fault, readPageStep } from "../base/fault.ts";
import { joinWithOr } from "../base/text/format.ts";
import { closestName } from "../base/text/suggest.ts";
import type { Route } from "./route.ts";
import type { MatchRoute } from "./router.ts";

const METHODS = ["GET", "POST", "PATCH", "DELETE"] as const;
const PATH_MAX_CHARACTERS = 200;
/** Parts of other gateways' and providers' base URLs, before or instead of `/v1`. */
const FOREIGN_ROOT =
  /^\/(?:openai\/deployments\/[^/]+|api|openai|anthropic|proxy|inference|v1|v2|v1beta)(?=\/)/;

/** Strangers send paths, and each part of each repaired path is looked up. */
const FOREIGN_ROOTS_MAX = 4;
const PARTS_MAX = 12;

interface Endpoints {
  readonly routes: readonly Route[];
  readonly match: MatchRoute;
  /** The fault of an endpoint that the providers have and the gateway does not. */
  readonly unsupported: (path: string) => Fault | undefined;
}

/** The 404 of a path without a route, with the nearest endpoint if there is one. */
export function notFoundFault(method: string, path: string, endpoints: Endpoints): Fault {
  const unknown = new Fault("not_found", "no route");
  if (path.length > PATH_MAX_CHARACTERS) return unknown;
  const { match, routes, unsupported } = endpoints;
  const known = (candidate: string): boolean => match("GET", candidate).kind !== "none";
  const plain = path.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  const repaired = withoutForeignRoots(plain).flatMap((rest) =>
    // `/models` is a page, so `/v1beta/models` is first taken for `/v1/models`.
    rest === plain ? [rest, `/v1${rest}`] : [`/v1${rest}`, rest],
  );
  const found = repaired.find((candidate) => candidate !== path && known(candidate));
  if (found !== undefined) return nearestFault(method, path, found, match);
  for (const candidate of repaired) {
    const fault = unsupported(candidate);
    if (fault !== undefined) return fault;
  }
  const nearest =
    similarPath(plain, repaired, routes) ??
    repaired
      .filter((candidate) => candidate.split("/").length <= PARTS_MAX)
      .flatMap((candidate) => leadingParts(candidate))
      .find((part) => known(part));
  return nearest === undefined ? unknown : nearestFault(method, path, nearest, match);
}

/** The 405 of a path that only has other methods. */
export function methodFault(
  method: string,
  path: string,
  allow: readonly string[],
  docsPath: string | undefined,
): Fault {
  const headers = { allow: allow.join(", ") };
  if (path.length > PATH_MAX_CHARACTERS)
    return new Fault("method_not_allowed", "no such method here", { headers });
  const methods = joinWithOr(allow.filter((one) => one !== "HEAD"));
  return new Fault("method_not_allowed", "no such method here", {
    message: `${path} does not support ${method}. Use ${methods}.`,
    headers,
    ...(docsPath === undefined ? {} : { next: [readPageStep(docsPath)] }),
  });
}

function nearestFault(method: string, path: string, nearest: string, match: MatchRoute): Fault {
  // Prefers the caller's own method, if the endpoint has it.
  const meant = [method, ...METHODS].find((one) => match(one, nearest).kind === "route");
  const step = METHODS.find((one) => one === meant) ?? "GET";
  return new Fault("not_found", "no route", {
    message: `There is no endpoint at ${path}. Did you mean ${step} ${nearest}? All endpoints are listed in /llms.txt.`,
    next: [
      { method: step, url: nearest, why: "The nearest endpoint. Check the client's base URL." },
    ],
  });
}

/** An endpoint that differs in a few letters, or that begins with the path. */
function similarPath(
  plain: string,
  repaired: readonly string[],
  routes: readonly Route[],
): string | undefined {
  const paths = routes.flatMap((route) =>
    route.dialect === "page" || route.path.includes("{") ? [] : [route.path],
  );
  const closest = plain.length < 2 ? undefined : closestName(plain, paths);
  if (closest !== undefined) return closest;
  const starts = repaired.filter((candidate) => /^\/v1\/./.test(candidate));
  return paths.find((one) => starts.some((start) => one.startsWith(`${start}/`)));
}

/** The path without its last part, its last two parts, and so on: a base URL that is a whole endpoint doubles the path. */
function leadingParts(path: string): readonly string[] {
  const end = path.lastIndexOf("/");
  return end <= 0 ? [] : [path.slice(0, end), ...leadingParts(path.slice(0, end))];
}

/** The path, and what remains of it as each leading foreign part is removed. */
function withoutForeignRoots(path: string, rootsMax = FOREIGN_ROOTS_MAX): readonly string[] {
  const root = rootsMax === 0 ? undefined : FOREIGN_ROOT.exec(path)?.[0];
  return root === undefined
    ? [path]
    : [path, ...withoutForeignRoots(path.slice(root.length), rootsMax - 1)];
}
