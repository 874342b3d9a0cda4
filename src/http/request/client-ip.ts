// Resolves the client's IP address. `x-forwarded-for` is trusted only as far as configured proxies wrote it.

import { BlockList, isIP } from "node:net";

export function createClientIpResolver(
  trustedProxies: readonly string[],
): (peer: string, forwarded: string | null) => string {
  const isTrusted = createProxyCheck(trustedProxies);
  return (peer, forwarded) => {
    let address = normalizeIp(peer);
    const hops = (forwarded ?? "").split(",").map((hop) => normalizeIp(hop.trim()));
    // From right to left: each trusted proxy wrote the address before it.
    while (isTrusted(address) && hops.length > 0) {
      const hop = hops.pop() ?? "";
      if (isIP(hop) === 0) break;
      address = hop;
    }
    return address;
  };
}

/** Whether an address is one of the trusted proxies. */
export function createProxyCheck(trustedProxies: readonly string[]): (address: string) => boolean {
  const trusted = new BlockList();
  for (const entry of trustedProxies) {
    const [network = "", bits] = entry.split("/");
    const family = isIP(network) === 6 ? "ipv6" : "ipv4";
    if (bits === undefined) trusted.addAddress(network, family);
    else trusted.addSubnet(network, Number(bits), family);
  }
  return (address) =>
    isIP(address) !== 0 && trusted.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

/** The networks that an address is rate-limited by: /32 and /24 for IPv4, /64 and /48 for IPv6. */
export function networksOf(address: string): readonly [narrow: string, wide: string] {
  if (isIP(address) === 4) return [prefixOf(address, 32), prefixOf(address, 24)];
  if (isIP(address) === 6) return [prefixOf(address, 64), prefixOf(address, 48)];
  return ["unknown", "unknown/wide"];
}

/** The widest network that strangers of one operator share: /16 for IPv4, /32 for IPv6. */
export function widestNetworkOf(address: string): string {
  return isIP(address) === 0 ? "unknown" : prefixOf(address, isIP(address) === 4 ? 16 : 32);
}

/** The network of an IP address with this prefix length, a multiple of 8. */
export function prefixOf(address: string, bits: number): string {
  if (isIP(address) === 4) {
    const octets = address.split(".").map((octet, index) => (index < bits / 8 ? octet : "0"));
    return `${octets.join(".")}/${bits}`;
  }
  const groups = expandIpv6Groups(address)
    .slice(0, Math.ceil(bits / 16))
    .map((group, index) =>
      index < Math.floor(bits / 16) ? group : (Number.parseInt(group, 16) & 0xff00).toString(16),
    );
  return `${groups.join(":")}::/${bits}`;
}

/** The expanded form of an IPv6 address: all groups, without leading zeros. */
export function canonicalIp(address: string): string {
  return isIP(address) === 6 ? expandIpv6Groups(address).join(":") : address;
}

/**
 * Strips ports and zones, which some proxies and sockets write, and unmaps IPv4 addresses that a dual-stack socket reports as
 * IPv6. One address has one spelling: that of RFC 5952.
 */
function normalizeIp(address: string): string {
  const bare = address
    .replace(/^\[(.*)\](:\d+)?$/, "$1")
    .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, "$1");
  if (isIP(bare) !== 6) return bare;
  const compressed = compressIpv6(bare);
  return unmapIpv4(compressed) ?? compressed;
}

/** `::ffff:102:304` as `1.2.3.4`. */
function unmapIpv4(compressed: string): string | undefined {
  const [, high, low] = /^::ffff:([\da-f]+):([\da-f]+)$/.exec(compressed) ?? [];
  if (high === undefined || low === undefined) return undefined;
  return [high, low]
    .map((group) => Number.parseInt(group, 16))
    .map((pair) => `${pair >> 8}.${pair & 255}`)
    .join(".");
}

/** The spelling of RFC 5952 without a zone, and with an embedded IPv4 address in hexadecimal. */
function compressIpv6(address: string): string {
  return new URL(`http://[${address.split("%", 1)[0]}]`).hostname.slice(1, -1);
}

function expandIpv6Groups(address: string): readonly string[] {
  const [head = "", tail] = compressIpv6(address).split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length;
  return [...left, ...Array.from({ length: zeros }, () => "0"), ...right];
}
