// A DNS server on loopback with TXT records, for a resolver that asks it over UDP.

import { createSocket } from "node:dgram";

const HEADER_BYTES = 12;
const RCODE_SERVFAIL = 2;
const RCODE_NXDOMAIN = 3;

export interface DnsServer {
  /** Such as "127.0.0.1:53535". */
  readonly address: string;
  /** By name. */
  readonly records: Map<string, readonly string[]>;
  /** Whether every query fails. */
  isDown: boolean;
  /** The names that were asked for. */
  readonly asked: string[];
  readonly close: () => void;
}

export async function startDnsServer(): Promise<DnsServer> {
  const socket = createSocket("udp4");
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  const server: DnsServer = {
    address: `127.0.0.1:${socket.address().port}`,
    records: new Map(),
    isDown: false,
    asked: [],
    close: () => void socket.close(),
  };
  socket.on("message", (query, { port, address }) => {
    socket.send(responseTo(query, server), port, address);
  });
  return server;
}

function responseTo(query: Buffer, server: DnsServer): Buffer {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += length + 1;
  }
  const question = query.subarray(HEADER_BYTES, at + 5);
  const name = labels.join(".").toLowerCase();
  server.asked.push(name);
  const texts = server.isDown ? [] : (server.records.get(name) ?? []);
  const code = server.isDown ? RCODE_SERVFAIL : texts.length === 0 ? RCODE_NXDOMAIN : 0;
  const header = Buffer.from([0, 0, 0x84, code, 0, 1, 0, texts.length, 0, 0, 0, 0]);
  query.copy(header, 0, 0, 2);
  return Buffer.concat([header, question, ...texts.map(txtAnswer)]);
}

/** A pointer to the name of the question, type TXT, class IN, a lifetime of zero. */
function txtAnswer(text: string): Buffer {
  const data = Buffer.concat([Buffer.from([Buffer.byteLength(text)]), Buffer.from(text)]);
  const head = Buffer.from([0xc0, HEADER_BYTES, 0, 16, 0, 1, 0, 0, 0, 0, 0, data.length]);
  return Buffer.concat([head, data]);
}
