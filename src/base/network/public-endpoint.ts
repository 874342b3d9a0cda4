// SSRF protection: which URLs of callers the gateway may send requests to, and which IP addresses it may connect to. The
// second check runs at every request, because the host name may resolve to something else by then (DNS rebinding).

import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import type { MasterSecret } from "../crypto/encryption.ts";
import { isLoopbackAddress, isPublicAddress, isPublicHostname } from "./public-address.ts";

export const URL_LENGTH_MAX = 2_048;
const ALLOWED_PORTS = new Set(["", "443", "8443"]);
const LOOPBACK_NAME = /^(localhost|127(\.\d+){3}|\[::1\])$/;

export interface PublicEndpoint {
  readonly url: URL;
  /** The gateway's own machine; only in development. */
  readonly isLoopback: boolean;
}

/** For what an account registers with a URL and a secret of it, which is stored encrypted. */
export interface EndpointDeps {
  readonly master: MasterSecret;
  /** Whether the URL may be on the gateway's own machine; only in development. */
  readonly allowLoopback: boolean;
}

export type ResolveHost = (name: string) => Promise<readonly string[]>;

/** The trailing dot keeps the resolver from trying the search domains of the gateway's network, such as `cluster.local`. */
export const resolveHost: ResolveHost = async (name) => {
  const absolute = LOOPBACK_NAME.test(name) || name.endsWith(".") ? name : `${name}.`;
  return (await lookup(absolute, { all: true })).map(({ address }) => address);
};

/** Returns the endpoint, or a predicate that says what is wrong: "must begin with https://". */
export function parseEndpoint(input: string, allowLoopback: boolean): PublicEndpoint | string {
  const url = URL.canParse(input) ? new URL(input) : undefined;
  if (url === undefined || url.href.length > URL_LENGTH_MAX)
    return `must be an https:// URL of at most ${URL_LENGTH_MAX.toLocaleString("en-US")} characters`;
  if (url.username !== "" || url.password !== "" || url.href.includes("#"))
    return "must not contain a user name, password or fragment";
  const name = url.hostname.replace(/\.$/, "");
  if (allowLoopback && LOOPBACK_NAME.test(name) && /^https?:$/.test(url.protocol))
    return { url, isLoopback: true };
  if (url.protocol !== "https:") return "must begin with https://";
  if (!ALLOWED_PORTS.has(url.port)) return "must use port 443 or 8443";
  if (isIP(name.replace(/^\[(.*)\]$/, "$1")) !== 0)
    return "must have a host name, not an IP address";
  if (!isPublicHostname(name)) return "must have a public host name";
  return { url, isLoopback: false };
}

/**
 * The addresses to connect to. Undefined if any address of the host is not public. Callers must not report why: it would
 * reveal names of the gateway's own network.
 */
export async function resolveAllowedAddresses(
  { url, isLoopback }: PublicEndpoint,
  resolve: ResolveHost,
): Promise<readonly string[] | undefined> {
  const name = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const addresses = isIP(name) === 0 ? await resolve(name).catch(() => []) : [name];
  const isAllowed = isLoopback ? isLoopbackAddress : isPublicAddress;
  if (addresses.length === 0 || !addresses.every(isAllowed)) return undefined;
  return addresses.toSorted((left, right) => isIP(left) - isIP(right)).slice(0, ADDRESSES_MAX);
}

const ADDRESSES_MAX = 3;
