// Where a webhook may point: what its address must look like when it is set, and which network addresses it may be
// connected to when it is called. The second check is the one that counts, because a name may mean something else by then.

import { isIP } from "node:net";
import { isLoopbackAddress, isPublicAddress } from "./public-address.ts";

export const URL_LENGTH_MAX = 2_048;
const ALLOWED_PORTS = new Set(["", "443", "8443"]);
const LOOPBACK_NAME = /^(localhost|127(\.\d+){3}|\[::1\])$/;
const INTERNAL_NAME = /(^|\.)(localhost|local|internal|intranet|lan|home|corp|private|arpa|onion)$/;

export interface Endpoint {
  readonly url: URL;
  /** On this very machine; only in development. */
  readonly isLoopback: boolean;
}

/** Finds out what a name means now. */
export type ResolveHost = (name: string) => Promise<readonly string[]>;

/** The endpoint that an address names, or a sentence that says what is wrong with it. */
export function parseEndpoint(address: string, allowLoopback: boolean): Endpoint | string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || url.href.length > URL_LENGTH_MAX)
    return `must be an https:// address of at most ${URL_LENGTH_MAX} characters`;
  if (url.username !== "" || url.password !== "" || url.href.includes("#"))
    return "must have no user name, password or fragment";
  const name = url.hostname.replace(/\.$/, "");
  if (allowLoopback && LOOPBACK_NAME.test(name) && /^https?:$/.test(url.protocol))
    return { url, isLoopback: true };
  if (url.protocol !== "https:") return "must begin with https://";
  if (!ALLOWED_PORTS.has(url.port)) return "must use port 443 or 8443";
  if (isIP(name.replace(/^\[(.*)\]$/, "$1")) !== 0) return "must have a name, not an IP address";
  if (!name.includes(".") || INTERNAL_NAME.test(name))
    return "must have a name of the public internet";
  return { url, isLoopback: false };
}

/**
 * The addresses to connect to, each of them checked: one that is not public spoils the name. What exactly was wrong is
 * not said, because it would tell the names of the gateway's own network.
 */
export async function resolveAllowedAddresses(
  { url, isLoopback }: Endpoint,
  resolve: ResolveHost,
): Promise<readonly string[] | undefined> {
  const name = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const addresses = isIP(name) === 0 ? await resolve(name).catch(() => []) : [name];
  const isAllowed = isLoopback ? isLoopbackAddress : isPublicAddress;
  if (addresses.length === 0 || !addresses.every(isAllowed)) return undefined;
  return addresses.toSorted((left, right) => isIP(left) - isIP(right)).slice(0, ADDRESSES_MAX);
}

const ADDRESSES_MAX = 3;
