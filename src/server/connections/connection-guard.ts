// Runs the limit of connections per network beside the listeners.

import type { Log } from "../../base/log.ts";
import { MINUTE_MS } from "../../base/time.ts";
import type { Config } from "../../config/config.ts";
import { createProxyCheck } from "../../http/request/client-ip.ts";
import { findOpenFiles } from "../open-files.ts";
import {
  type ConnectionLimit,
  type ConnectionLimits,
  connectionLimitsFor,
  createConnectionLimit,
  type TcpSockets,
} from "./connection-limit.ts";
import { openTcpSockets } from "./tcp-sockets.ts";

/** The pause between two scans. A scan takes 0.6 µs per descriptor: at most 0.5% of a core up to 16,384 of them. */
const SCAN_PAUSE = { minMs: 250, msPerDescriptor: 0.125, maxMs: 2_000 };
/** The pause after a scan that closed connections: more of them probably wait in the kernel's queue. */
const SCAN_PAUSE_AFTER_CLOSING = { minMs: 10, msPerDescriptor: 0.002, maxMs: 100 };
const REPORT_EVERY_MS = MINUTE_MS;
export const UNLIMITED_MESSAGE =
  "connections per network are not limited: the open connections of the process cannot be read";
export const UNLIMITED_HINT =
  "Run Postern on Linux, or limit connections per client in the proxy in front.";

export interface ConnectionGuard {
  readonly start: (ports: readonly number[]) => void;
  readonly stop: () => void;
  readonly counts: () => { readonly open: number; readonly closed: number };
}

/** Undefined if connections are not limited. */
export function createConnectionGuard(
  { limits, trustedProxies }: Pick<Config, "limits" | "trustedProxies">,
  log: Log,
): ConnectionGuard | undefined {
  const found = findConnectionLimits(limits.connectionsPerNetwork);
  if (found === "unavailable") log.warn(UNLIMITED_MESSAGE, { hint: UNLIMITED_HINT });
  if (typeof found === "string") return undefined;
  const { sockets, limits: connectionLimits } = found;
  const report = createReport(log, connectionLimits);
  let limit: ConnectionLimit | undefined;
  let timer: Timer | undefined;
  let closed = 0;
  const scan = (): void => {
    if (limit === undefined) return;
    const result = limit.scan();
    closed += result.closed;
    timer = setTimeout(scan, result.isComplete ? pauseAfter(result.closed) : 0);
  };
  const pauseAfter = (connectionsClosed: number): number => {
    const { minMs, msPerDescriptor, maxMs } =
      connectionsClosed > 0 ? SCAN_PAUSE_AFTER_CLOSING : SCAN_PAUSE;
    return Math.min(maxMs, Math.max(minMs, sockets.end() * msPerDescriptor));
  };
  return {
    counts: () => ({ open: limit?.open() ?? 0, closed }),
    start: (ports) => {
      limit = createConnectionLimit({
        sockets,
        limits: connectionLimits,
        ports: new Set(ports),
        isExempt: createProxyCheck(trustedProxies),
        onClosed: report,
      });
      scan();
    },
    stop: () => {
      clearTimeout(timer);
      limit = undefined;
      sockets.close();
    },
  };
}

/** `configured` is the setting: undefined for the default, 0 for no limit. */
export function findConnectionLimits(
  configured: number | undefined,
): { readonly sockets: TcpSockets; readonly limits: ConnectionLimits } | "off" | "unavailable" {
  if (configured === 0) return "off";
  const openFiles = findOpenFiles();
  const sockets = openFiles && openTcpSockets();
  if (openFiles === undefined || sockets === undefined) return "unavailable";
  return { sockets, limits: connectionLimitsFor(configured, openFiles.max) };
}

/** The first connections that are closed are logged at once, the next ones together a minute later. */
function createReport(
  log: Log,
  limits: ConnectionLimits,
): (network: string, connections: number) => void {
  let unreported = 0;
  let reportedAt = Number.NEGATIVE_INFINITY;
  return (network, connections) => {
    unreported += connections;
    const now = performance.now();
    if (now - reportedAt < REPORT_EVERY_MS) return;
    log.warn("closed connections above the limit of their network", {
      network,
      closed: unreported,
      limit: limits.perNetwork,
      limit_wider_network: limits.perWiderNetwork,
      hint: "If this is a proxy of yours, set POSTERN_TRUSTED_PROXIES. Otherwise raise POSTERN_CONNECTIONS_PER_NETWORK, or block the network.",
    });
    unreported = 0;
    reportedAt = now;
  };
}
