// Limits of connections per network, on real TCP connections.

import { afterEach, describe, expect, test } from "bun:test";
import { listen, type Listener } from "../../src/http/listen.ts";
import {
  connectionLimitsFor,
  createConnectionLimit,
  type ConnectionLimitDeps,
  type TcpSockets,
} from "../../src/server/connections/connection-limit.ts";
import { openTcpSockets } from "../../src/server/connections/tcp-sockets.ts";
import { eventually } from "../support/eventually.ts";
import { startLimitedProcess } from "./limited-process.ts";
import { openRawConnection, type RawConnection } from "./raw-client.ts";

const GET = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
const METRICS_TOKEN = "a-token-of-at-least-16-characters";
/** Not 127.0.0.1, where a client of another test may still try a port that was free since. */
const LISTENER = "127.0.9.9";
const MANY_DESCRIPTORS = 1_024;

test.each([
  [undefined, 1_048_576, 4_096, 8_192],
  [undefined, 1_024, 256, 512],
  [1_000, 1_024, 512, 512],
  [100, 65_536, 100, 200],
  [undefined, 3, 1, 1],
])(
  "of %p configured connections and %d descriptors, a network gets %d and a /24 %d",
  (configured, descriptors, perNetwork, perWiderNetwork) =>
    expect(connectionLimitsFor(configured, descriptors)).toEqual({ perNetwork, perWiderNetwork }),
);

describe.skipIf(process.platform !== "linux")("the limit of connections", () => {
  const cleanups: (() => unknown)[] = [];
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
  });

  function openSockets(): TcpSockets {
    const sockets = openTcpSockets();
    if (sockets === undefined) throw new Error("libc was not found");
    cleanups.push(sockets.close);
    return sockets;
  }

  /** A listener whose connections are scanned when the test says so. */
  function startLimited(
    limits: ConnectionLimitDeps["limits"],
    {
      host = LISTENER,
      isExempt = () => false,
      respond = () => new Response("ok"),
    }: {
      readonly host?: string;
      readonly isExempt?: (address: string) => boolean;
      readonly respond?: (request: Request) => Response | Promise<Response>;
    } = {},
  ) {
    const sockets = openSockets();
    const listener: Listener = listen({ host, port: 0 }, async (request) => respond(request));
    cleanups.push(() => listener.stop(true));
    const closed: [string, number][] = [];
    const limit = createConnectionLimit({
      sockets,
      limits,
      ports: new Set([listener.port]),
      isExempt,
      onClosed: (network, connections) => closed.push([network, connections]),
    });
    const scan = (): number => {
      let result = limit.scan();
      while (!result.isComplete) result = limit.scan();
      return result.closed;
    };
    const connectFrom = async (address: string, text: string): Promise<RawConnection> => {
      const loopback = address.includes(":") ? "[::1]" : "127.0.0.1";
      const url = `http://${host === "::" ? loopback : host}:${listener.port}`;
      const connection = await openRawConnection({ url }, address);
      cleanups.push(() => connection.socket.destroy());
      if (text !== "") await connection.write(text);
      if (text === GET) await connection.until(/ok$/);
      return connection;
    };
    /** Descriptors of connections that the listener accepted, whether they are counted or not. */
    const accepted = (): number => {
      const all = Array.from({ length: sockets.end() }, (_, fd) => fd);
      return all.filter(
        (fd) => sockets.peerOf(fd) !== undefined && sockets.localPortOf(fd) === listener.port,
      ).length;
    };
    return { limit, scan, closed, connectFrom, accepted };
  }

  test("closes the newest connections of a network, and those of no other", async () => {
    const { scan, limit, closed, connectFrom, accepted } = startLimited({
      perNetwork: 3,
      perWiderNetwork: 100,
    });
    const old = [];
    for (let i = 0; i < 3; i++) old.push(await connectFrom("127.0.1.2", GET));
    expect(scan()).toBe(0);
    const others = [await connectFrom("127.0.1.3", GET), await connectFrom("127.0.0.1", GET)];
    const newest = [];
    for (let i = 0; i < 4; i++) newest.push(await connectFrom("127.0.1.2", GET));
    expect([scan(), limit.open(), closed]).toEqual([4, 5, [["127.0.1.2/32", 4]]]);
    await Promise.all(newest.map((connection) => connection.whenClosed()));
    await eventually(() => accepted() === 5);
    for (const connection of [...old, ...others]) {
      await connection.write(GET);
      expect((await connection.until(/ok[^]+ok$/)).isClosed).toBe(false);
    }
    expect([scan(), limit.open()]).toEqual([0, 5]);
  });

  test("counts a new connection that has the descriptor of a closed one", async () => {
    const { scan, limit, connectFrom, accepted } = startLimited({
      perNetwork: 2,
      perWiderNetwork: 100,
    });
    for (let round = 0; round < 3; round++) {
      const connections = [
        await connectFrom("127.0.1.2", GET),
        await connectFrom("127.0.1.2", GET),
      ];
      expect([scan(), limit.open()]).toEqual([0, 2]);
      for (const { socket } of connections) socket.destroy();
      await eventually(() => accepted() === 0);
    }
    expect([scan(), limit.open()]).toEqual([0, 0]);
  });

  test.each([
    ["that sent nothing", ""],
    ["of half a header", "GET / HTTP/1.1\r\nho"],
    ["of half a body", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1234"],
    ["whose client does not read the response", "GET /endless HTTP/1.1\r\nhost: x\r\n\r\n"],
  ])("frees the descriptors of connections %s", async (_, text) => {
    const chunk = new Uint8Array(65_536);
    const { scan, limit, connectFrom, accepted } = startLimited(
      { perNetwork: 1, perWiderNetwork: 100 },
      {
        respond: async (request) => {
          if (request.method === "POST") await request.text();
          return new Response(
            new ReadableStream({ pull: (controller) => controller.enqueue(chunk) }),
          );
        },
      },
    );
    const connections = await Promise.all(
      Array.from({ length: 5 }, () => connectFrom("127.0.1.2", text)),
    );
    for (const { socket } of connections) socket.pause();
    await eventually(() => accepted() === 5);
    expect([scan(), limit.open()]).toEqual([4, 1]);
    await eventually(() => accepted() === 1);
  });

  test("limits a /24 beyond its addresses, and a /64 by one limit", async () => {
    const ipv4 = startLimited({ perNetwork: 2, perWiderNetwork: 5 });
    for (let host = 1; host <= 8; host++) await ipv4.connectFrom(`127.0.1.${host}`, GET);
    expect([ipv4.scan(), ipv4.closed]).toEqual([3, [["127.0.1.0/24", 3]]]);
    const ipv6 = startLimited({ perNetwork: 2, perWiderNetwork: 5 }, { host: "::" });
    for (let i = 0; i < 3; i++) {
      await ipv6.connectFrom("::1", GET);
      await ipv6.connectFrom("127.0.1.9", GET);
    }
    expect([ipv6.scan(), ipv6.closed]).toEqual([
      2,
      [
        ["0:0:0:0::/64", 1],
        ["127.0.1.9/32", 1],
      ],
    ]);
  });

  test("counts the connections of exempt addresses, and closes none", async () => {
    const { scan, limit, connectFrom } = startLimited(
      { perNetwork: 2, perWiderNetwork: 2 },
      { isExempt: (address) => address === "127.0.1.2" },
    );
    for (let i = 0; i < 5; i++) await connectFrom("127.0.1.2", GET);
    expect([scan(), limit.open()]).toEqual([0, 5]);
  });

  test("a process closes, counts and logs what is above its setting", async () => {
    const gateway = await startLimitedProcess(MANY_DESCRIPTORS, {
      POSTERN_CONNECTIONS_PER_NETWORK: "3",
      POSTERN_TRUSTED_PROXIES: "127.0.2.0/24",
      POSTERN_METRICS_TOKEN: METRICS_TOKEN,
    });
    cleanups.push(gateway.stop);
    const metric = async (name: string): Promise<number> => {
      const headers = { authorization: `Bearer ${METRICS_TOKEN}`, connection: "close" };
      const text = await (await fetch(`${gateway.url}/metrics`, { headers })).text();
      return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
    };
    const open = (address: string, count: number) =>
      Promise.all(Array.from({ length: count }, () => openRawConnection(gateway, address)));
    const connections = [...(await open("127.0.1.2", 8)), ...(await open("127.0.2.2", 8))];
    cleanups.push(() => connections.map(({ socket }) => socket.destroy()));
    await Promise.all(connections.map((connection) => connection.write(GET)));
    await eventually(
      () => connections.filter((connection) => connection.output().isClosed).length === 5,
    );
    expect(connections.slice(8).some((connection) => connection.output().isClosed)).toBe(false);
    expect(await metric("postern_connections_closed_total")).toBe(5);
    expect(await metric("postern_connections")).toBeGreaterThanOrEqual(11);
    const lines = gateway.logLines().filter((line) => line.includes("above the limit"));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('"network":"127.0.1.2/32"');
    expect(lines[0]).toContain("POSTERN_CONNECTIONS_PER_NETWORK");
  });
});
