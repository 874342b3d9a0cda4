// Over TLS the other end has to be who it says before it hears a word, because the first words hold a key.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Authority, type Certified, createAuthority } from "../support/certificates.ts";
import { type Child, startChild } from "../support/child.ts";
import {
  answering,
  becomes,
  type Line,
  replyWith,
  type Server,
  serve,
  stopServers,
} from "./server.ts";

const HOUR_MS = 3_600_000;

let trusted: Authority;
let caller: Child;
let folder: string;

beforeAll(() => {
  trusted = createAuthority("An authority that is trusted");
  folder = mkdtempSync(path.join(tmpdir(), "postern-secure-"));
  const file = path.join(folder, "authority.pem");
  writeFileSync(file, trusted.cert);
  caller = startChild(path.join(import.meta.dir, "worker.ts"), [], {
    NODE_EXTRA_CA_CERTS: file,
  });
});
afterAll(async () => {
  caller.process.stdin.end();
  await caller.ended;
  rmSync(folder, { recursive: true });
});
afterEach(stopServers);

async function call(way: string, url: string, bodyBytes = 2): Promise<string> {
  caller.process.stdin.write(`${way} ${url} ${bodyBytes}\n`);
  return (await caller.line("told ")).slice("told ".length);
}

const named = ({ port }: Server): string => `https://localhost:${port}/v1`;
const numbered = ({ port }: Server): string => `https://127.0.0.1:${port}/v1`;

/** A server that counts every byte that it is told in confidence. */
async function listening(certified: Certified) {
  const heard = { bytes: 0 };
  const script = answering(({ body }) => replyWith(`heard ${body.length}`));
  const server = await serve(
    (line) => {
      line.socket.on("data", ({ length }: Buffer) => {
        heard.bytes += length;
      });
      void script(line);
    },
    { certified },
  );
  return { server, heard };
}

for (const [way, name] of [
  ["own", "our own connections"],
  ["runtime", "the runtime's client"],
] as const)
  describe(`a secure request over ${name}`, () => {
    test("is heard by who has a good certificate, and the connection is kept", async () => {
      const { server } = await listening(trusted.certify({ hosts: ["localhost"] }));
      for (let count = 0; count < 3; count++)
        expect(await call(way, named(server))).toBe("200 heard 2");
      expect(server.lines.length).toBe(1);
      expect(server.asked[0]?.headers).toMatchObject({
        authorization: "Bearer top-secret",
        host: `localhost:${server.port}`,
      });
    });

    test("may be of 20 MB", async () => {
      const { server } = await listening(trusted.certify({ hosts: ["localhost"] }));
      expect(await call(way, named(server), 20_000_000)).toBe("200 heard 20000000");
    });

    test("may go to an address without a name, where the certificate says that address", async () => {
      const { server } = await listening(trusted.certify({ hosts: ["127.0.0.1"] }));
      expect(await call(way, numbered(server))).toBe("200 heard 2");
    });

    for (const [title, certify, urlOf, sentence] of [
      [
        "an authority that nobody trusts has signed for",
        () => createAuthority("Anybody").certify({ hosts: ["localhost"] }),
        named,
        /unable to verify/i,
      ],
      [
        "has a certificate of another host",
        () => trusted.certify({ hosts: ["localhost.example.com", "example.com"] }),
        named,
        /altname/i,
      ],
      [
        "has a certificate of everything below a host",
        () => trusted.certify({ hosts: ["*.localhost"] }),
        named,
        /altname/i,
      ],
      [
        "has a certificate of another address",
        () => trusted.certify({ hosts: ["127.0.0.2", "localhost"] }),
        numbered,
        /altname/i,
      ],
      [
        "has a certificate of an address and is called by a name",
        () => trusted.certify({ hosts: ["127.0.0.1"] }),
        named,
        /altname/i,
      ],
      [
        "has a certificate that has expired",
        () =>
          trusted.certify({
            hosts: ["localhost"],
            from: new Date(Date.now() - 2 * HOUR_MS),
            until: new Date(Date.now() - HOUR_MS),
          }),
        named,
        /expired/i,
      ],
      [
        "has a certificate that is not valid yet",
        () =>
          trusted.certify({
            hosts: ["localhost"],
            from: new Date(Date.now() + HOUR_MS),
            until: new Date(Date.now() + 2 * HOUR_MS),
          }),
        named,
        /not yet valid/i,
      ],
    ] as const)
      test(`says not one byte to who ${title}, and why`, async () => {
        const { server, heard } = await listening(certify());
        const told = await call(way, urlOf(server));
        expect(told).toStartWith("error ");
        expect(told).toMatch(sentence);
        expect(told).not.toContain("top-secret");
        expect(await becomes(() => server.open() === 0)).toBe(true);
        await Bun.sleep(20);
        expect(heard.bytes).toBe(0);
      });

    test("says not one byte to who does not encrypt", async () => {
      const heard: Buffer[] = [];
      const server = await serve(({ socket, send }) => {
        socket.on("data", (bytes: Buffer) => {
          heard.push(bytes);
          send(replyWith("in the clear"));
        });
      });
      expect(await call(way, named(server))).toStartWith("error ");
      const all = Buffer.concat(heard).toString("latin1");
      expect(all).not.toContain("top-secret");
      expect(all).not.toContain("POST");
      expect(await becomes(() => server.open() === 0)).toBe(true);
    });
  });

describe("a secure reply that lasts until the connection closes", () => {
  /** Somebody on the way, who can close what he cannot read. */
  const between = (server: Server): Promise<Server> =>
    serve(({ socket }) => {
      const other = connect(server.port, "127.0.0.1");
      other.on("error", () => {});
      socket.on("data", (bytes: Buffer) => other.write(bytes));
      socket.on("close", () => other.destroy());
      other.on("data", (bytes: Buffer) => socket.write(bytes));
      void becomes(() => server.asked.length === 1).then(async () => {
        await Bun.sleep(50);
        socket.resetAndDestroy();
      });
    });

  test("is whole where the close is said in confidence", async () => {
    const { server } = await speaking(({ socket }) => socket.end());
    expect(await call("own", named(server))).toBe("200 half");
  });

  test("is cut where somebody on the way resets the connection", async () => {
    const { server } = await speaking(() => {});
    const way = await between(server);
    expect(await call("own", named(way))).toBe("error Error: the reply was cut");
  });

  async function speaking(close: (line: Line) => void) {
    const server = await serve(
      async (line) => {
        await line.request();
        line.send("HTTP/1.1 200 OK\r\n\r\nhalf");
        await Bun.sleep(30);
        close(line);
      },
      { certified: trusted.certify({ hosts: ["localhost"] }) },
    );
    return { server };
  }
});
