// `doctor` on the limit of connections per network.

import type { Config } from "../../config/config.ts";
import {
  findConnectionLimits,
  UNLIMITED_HINT,
  UNLIMITED_MESSAGE,
} from "../../server/connection-guard.ts";
import type { Finding } from "./finding.ts";

const CHECK = "connections";

/** No finding in development, where the limit is off. */
export function checkConnections({ development, limits }: Config): readonly Finding[] {
  if (development && limits.connectionsPerNetwork === 0) return [];
  const found = findConnectionLimits(limits.connectionsPerNetwork);
  if (found === "off")
    return [
      {
        status: "note",
        check: CHECK,
        message: "connections per network are not limited: POSTERN_CONNECTIONS_PER_NETWORK is 0",
      },
    ];
  if (found === "unavailable")
    return [{ status: "warn", check: CHECK, message: UNLIMITED_MESSAGE, hint: UNLIMITED_HINT }];
  found.sockets.close();
  const { perNetwork, perWiderNetwork } = found.limits;
  const message = `at most ${perNetwork} per IPv4 address or IPv6 /64, ${perWiderNetwork} per /24 or /48`;
  return [{ status: "ok", check: CHECK, message }];
}
