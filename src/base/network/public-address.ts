// Tells public IP addresses from private and special ones. Callers choose the URLs of webhooks, images and files, so these
// must not reach the operator's own network (SSRF).

import { BlockList, isIP } from "node:net";

/** The IANA IPv4 special-purpose registry, multicast, and Azure's metadata server, which has a public address. */
const IPV4_NOT_PUBLIC: readonly (readonly [network: string, bits: number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.31.196.0", 24],
  ["192.52.193.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["192.175.48.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
];

/** Within the global unicast range 2000::/3: Teredo and its neighbors, documentation, 6to4, direct delegation. */
const IPV6_NOT_PUBLIC: readonly (readonly [network: string, bits: number])[] = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["2620:4f:8000::", 48],
  ["3fff::", 20],
];

const ipv4NotPublic = blockListOf(IPV4_NOT_PUBLIC, "ipv4");
const ipv6NotPublic = blockListOf(IPV6_NOT_PUBLIC, "ipv6");
// Everything outside it is rejected: IPv4-mapped, NAT64, unique local, link local, multicast, loopback.
const ipv6Global = blockListOf([["2000::", 3]], "ipv6");

export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 4) return !ipv4NotPublic.check(address, "ipv4");
  if (isIP(address) !== 6 || address.includes("%")) return false;
  return ipv6Global.check(address, "ipv6") && !ipv6NotPublic.check(address, "ipv6");
}

/** Last labels that only a private network resolves: special-use names (RFC 6761), habits of networks, and Kubernetes'. */
const PRIVATE_NAME =
  /(?:^|\.)(?:localhost|localdomain|local|internal|intranet|lan|home|corp|private|arpa|onion|svc|cluster|pod|consul)$/;

/** A name that ends with a period is the same one. In linear time: callers send names. */
export function withoutRootLabel(hostname: string): string {
  let end = hostname.length;
  while (end > 0 && hostname[end - 1] === ".") end--;
  return hostname.slice(0, end);
}

/** False for a special IP address and for a name that only a private network resolves. Names are not resolved. */
export function isPublicHostname(hostname: string): boolean {
  const host = withoutRootLabel(hostname.replace(/^\[(.*)\]$/, "$1"));
  if (isIP(host) !== 0) return isPublicAddress(host);
  return host.includes(".") && !PRIVATE_NAME.test(host);
}

const LOOPBACK_HOST = /^(localhost|127(\.\d+){3}|\[?::1\]?)$/i;

/** Takes a host name or an IP address, also in the form of `URL.hostname`. */
export function isLoopbackHost(hostname: string): boolean {
  return LOOPBACK_HOST.test(hostname);
}

export function isLoopbackAddress(address: string): boolean {
  return (isIP(address) === 4 && address.startsWith("127.")) || address === "::1";
}

function blockListOf(
  networks: readonly (readonly [string, number])[],
  family: "ipv4" | "ipv6",
): BlockList {
  const list = new BlockList();
  for (const [network, bits] of networks) list.addSubnet(network, bits, family);
  return list;
}
