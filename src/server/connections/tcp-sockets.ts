// The TCP connections of this process, read from Linux through libc: the runtime reports a connection only with its first
// complete request. No data of a connection is copied.

import { dlopen } from "bun:ffi";
import { closeSync, openSync, readSync } from "node:fs";
import type { TcpSockets } from "./connection-limit.ts";

const LIBRARIES = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"];
const AF_INET = 2;
const AF_INET6 = 10;
/** Bytes of `struct sockaddr_in` and `sockaddr_in6` that identify a socket: family, port and address. */
const IPV4_BYTES = 8;
const IPV6_BYTES = 24;
const PORT_OFFSET = 2;
const IPV4_OFFSET = 4;
const IPV6_OFFSET = 8;
/** The first bytes of `::ffff:0:0/96`. */
const IPV4_MAPPED = Buffer.from("00000000000000000000ffff", "hex");
const SHUT_RDWR = 2;
const STATUS_BYTES = 4_096;
const statusText = Buffer.alloc(STATUS_BYTES);

/** Undefined where the system or its C library is another one. */
export function openTcpSockets(): TcpSockets | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    const { getpeername, getsockname, shutdown } = openLibc();
    const address = Buffer.alloc(128);
    const length = new Uint32Array(1);
    const read = (call: typeof getpeername, fd: number): boolean => {
      length[0] = address.length;
      return call(fd, address, length) === 0;
    };
    const status = openSync("/proc/self/status", "r");
    return {
      end: () => readTableSize(status),
      peerOf: (fd) => {
        if (!read(getpeername, fd)) return undefined;
        const family = address.readUInt16LE(0);
        if (family === AF_INET) return address.toString("latin1", 0, IPV4_BYTES);
        return family === AF_INET6 ? address.toString("latin1", 0, IPV6_BYTES) : undefined;
      },
      localPortOf: (fd) => (read(getsockname, fd) ? address.readUInt16BE(PORT_OFFSET) : undefined),
      addressOf,
      shutdown: (fd) => void shutdown(fd, SHUT_RDWR),
      close: () => closeSync(status),
    };
  } catch {
    return undefined;
  }
}

function openLibc() {
  for (const library of LIBRARIES)
    try {
      return dlopen(library, {
        getpeername: { args: ["i32", "ptr", "ptr"], returns: "i32" },
        getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
        shutdown: { args: ["i32", "i32"], returns: "i32" },
      }).symbols;
    } catch {
      // The library does not exist here; try the next one.
    }
  throw new Error("no C library was found");
}

/** The size of the descriptor table. `status` stays open, so that it can be read when no descriptor is free. */
function readTableSize(status: number): number {
  const bytes = readSync(status, statusText, 0, STATUS_BYTES, 0);
  return Number(/^FDSize:\s+(\d+)/m.exec(statusText.toString("latin1", 0, bytes))?.[1] ?? 0);
}

function addressOf(peer: string): string {
  const bytes = Buffer.from(peer, "latin1");
  if (bytes.length === IPV4_BYTES) return bytes.subarray(IPV4_OFFSET).join(".");
  const address = bytes.subarray(IPV6_OFFSET);
  // A listener on `::` reports IPv4 addresses in this form.
  if (address.subarray(0, IPV4_MAPPED.length).equals(IPV4_MAPPED))
    return address.subarray(IPV4_MAPPED.length).join(".");
  return Array.from({ length: 8 }, (_, group) => address.readUInt16BE(2 * group).toString(16)).join(
    ":",
  );
}
