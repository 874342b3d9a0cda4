// Pipelined requests: the runtime hands over all that have arrived on a connection before it looks at another connection.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createPipelineLimit } from "../../src/http/guards/pipelining.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { openRawConnection } from "./raw-client.ts";

describe("a connection with thousands of pipelined requests", () => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({});
  });
  afterAll(() => gateway.stop());

  test.each(["/healthz", "/v1/models", "/v1/nothing"])(
    "is closed after some of them (%s), and others are served",
    async (path) => {
      const connection = await openRawConnection(gateway);
      connection.socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(10_000));
      const { text, isClosed } = await connection.whenClosed();
      expect(isClosed).toBe(true);
      expect([...text.matchAll(/HTTP\/1\.1 /g)].length).toBeLessThan(1_000);
      expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
    },
  );

  test("does not exist for clients that send one request after the other, however many", async () => {
    const statuses = await Promise.all(
      Array.from({ length: 300 }, async () => (await fetch(`${gateway.url}/healthz`)).status),
    );
    expect(new Set(statuses)).toEqual(new Set([200]));
  });
});

describe("the limit of pipelined requests", () => {
  const allowed = (counted: readonly boolean[]): number => counted.filter((over) => !over).length;

  test("counts per connection once a turn has many requests, and begins anew in the next turn", () => {
    const turnEnds: (() => void)[] = [];
    const count = createPipelineLimit((run) => turnEnds.push(run));
    const send = (connection: string, requests: number): number =>
      allowed(Array.from({ length: requests }, () => count(() => connection)));
    expect(send("one", 1_000)).toBe(64 + 32);
    expect(send("two", 10)).toBe(10);
    for (const end of turnEnds.splice(0)) end();
    expect(send("one", 20)).toBe(20);
    expect(turnEnds).toHaveLength(1);
  });

  test("does not look at the connections of a turn with few requests", () => {
    const count = createPipelineLimit(() => {});
    const looked: string[] = [];
    for (let request = 0; request < 64; request++)
      count(() => {
        looked.push("connection");
        return "one";
      });
    expect(looked).toEqual([]);
  });
});
