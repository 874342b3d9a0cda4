// Limits the TCP connections of a network. The runtime reports no connection before its first complete request, so the
// descriptors of the process are read at short intervals, and the newest connections above a limit are shut down.

import { networksOf } from "../../http/request/client-ip.ts";

/** Descriptors read in one turn of the event loop. Reading them, or closing `CLOSE_SLICE` connections, takes a few milliseconds. */
const SLICE = 1_024;
const CLOSE_SLICE = 256;
const CONNECTIONS_MAX = 4_096;
const DESCRIPTOR_SHARE = 1 / 4;
const DESCRIPTOR_SHARE_MAX = 1 / 2;
const FIRST_DESCRIPTOR = 3;

/** The TCP sockets among the descriptors of this process. */
export interface TcpSockets {
  /** A number above every open descriptor. */
  readonly end: () => number;
  /** The remote address and port, encoded; undefined if this is no TCP connection. */
  readonly peerOf: (fd: number) => string | undefined;
  readonly localPortOf: (fd: number) => number | undefined;
  /** The IP address of an encoded peer. */
  readonly addressOf: (peer: string) => string;
  /** Shuts down the socket, so that the runtime reads its end and closes it. */
  readonly shutdown: (fd: number) => void;
  readonly close: () => void;
}

export interface ConnectionLimits {
  /** Connections of an IPv4 address or an IPv6 /64. */
  readonly perNetwork: number;
  /** Connections of an IPv4 /24 or an IPv6 /48. */
  readonly perWiderNetwork: number;
}

/** `configured` is undefined for the default. */
export function connectionLimitsFor(
  configured: number | undefined,
  descriptorsMax: number,
): ConnectionLimits {
  const most = Math.max(1, Math.floor(descriptorsMax * DESCRIPTOR_SHARE_MAX));
  const fallback = Math.min(CONNECTIONS_MAX, Math.floor(descriptorsMax * DESCRIPTOR_SHARE));
  const perNetwork = Math.max(1, Math.min(configured ?? fallback, most));
  return { perNetwork, perWiderNetwork: Math.min(2 * perNetwork, most) };
}

export interface ConnectionLimitDeps {
  readonly sockets: TcpSockets;
  readonly limits: ConnectionLimits;
  readonly ports: ReadonlySet<number>;
  readonly isExempt: (address: string) => boolean;
  readonly onClosed: (network: string, connections: number) => void;
}

export interface ConnectionLimit {
  /** Reads a slice of the descriptors; after the last one, shuts down what is above a limit. */
  readonly scan: () => { readonly isComplete: boolean; readonly closed: number };
  /** Connections to the ports at the last scan, those of exempt addresses included. */
  readonly open: () => number;
}

interface Network {
  readonly name: string;
  readonly max: number;
  /** The descriptors of its connections, in the order in which they were found. */
  readonly members: Set<number>;
}

interface Connection {
  readonly peer: string;
  /** Undefined for a connection that is not to the ports or was shut down. */
  networks: readonly Network[] | undefined;
}

export function createConnectionLimit(deps: ConnectionLimitDeps): ConnectionLimit {
  const { sockets, ports, isExempt, onClosed } = deps;
  const connections = new Map<number, Connection>();
  const networks = createNetworks(deps.limits);
  const over = new Set<Network>();
  let open = 0;
  let next = FIRST_DESCRIPTOR;
  const count = (fd: number, peer: string): readonly Network[] | undefined => {
    const port = sockets.localPortOf(fd);
    if (port === undefined || !ports.has(port)) return undefined;
    open += 1;
    const address = sockets.addressOf(peer);
    const counted = isExempt(address) ? [] : networks.of(address);
    for (const network of counted)
      if (network.members.add(fd).size > network.max) over.add(network);
    return counted;
  };
  const uncount = (fd: number, connection: Connection): void => {
    if (connection.networks === undefined) return;
    open -= 1;
    for (const network of connection.networks) networks.remove(network, fd);
    connection.networks = undefined;
  };
  const observe = (fd: number): void => {
    const peer = sockets.peerOf(fd);
    const known = connections.get(fd);
    if (known?.peer === peer) return;
    if (known !== undefined) uncount(fd, known);
    if (peer === undefined) connections.delete(fd);
    else connections.set(fd, { peer, networks: count(fd, peer) });
  };
  const closeNewest = (network: Network, most: number): number => {
    const { size } = network.members;
    const newest = [...network.members].slice(Math.max(network.max, size - most));
    for (const fd of newest) {
      const connection = connections.get(fd);
      if (connection === undefined) continue;
      // The runtime may have closed this one and opened another since it was read.
      if (sockets.peerOf(fd) === connection.peer) sockets.shutdown(fd);
      uncount(fd, connection);
    }
    if (newest.length > 0) onClosed(network.name, newest.length);
    if (network.members.size <= network.max) over.delete(network);
    return newest.length;
  };
  return {
    open: () => open,
    scan: () => {
      const end = sockets.end();
      const stop = Math.min(end, next + SLICE);
      for (; next < stop; next++) observe(next);
      if (next < end) return { isComplete: false, closed: 0 };
      next = FIRST_DESCRIPTOR;
      let closed = 0;
      for (const network of over) closed += closeNewest(network, CLOSE_SLICE - closed);
      return { isComplete: true, closed };
    },
  };
}

function createNetworks({ perNetwork, perWiderNetwork }: ConnectionLimits) {
  const networks = new Map<string, Network>();
  const find = (name: string, max: number): Network => {
    const known = networks.get(name);
    if (known !== undefined) return known;
    const network = { name, max, members: new Set<number>() };
    networks.set(name, network);
    return network;
  };
  return {
    of: (address: string): readonly Network[] => {
      const [narrow, wide] = networksOf(address);
      return [find(narrow, perNetwork), find(wide, perWiderNetwork)];
    },
    remove: ({ name, members }: Network, fd: number): void => {
      members.delete(fd);
      if (members.size === 0) networks.delete(name);
    },
  };
}
