// Over TLS the other end has to be who it says before it hears a word, because the first words hold a key.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { HOUR_MS } from "../../src/base/time.ts";
import {
  type CertificateAuthority,
  type Certificate,
  createCertificateAuthority,
} from "../support/certificate-authority.ts";
import { type ScriptProcess, startScript } from "../support/script-process.ts";
import {
  respondToAll,
  waitUntil,
  type ServerConnection,
  okReply,
  type ScriptedServer,
  startServer,
  stopServers,
} from "./scripted-server.ts";

let trusted: CertificateAuthority;
let caller: ScriptProcess;
let folder: string;

beforeAll(() => {
  trusted = createCertificateAuthority("An authority that is trusted");
  folder = mkdtempSync(path.join(tmpdir(), "postern-secure-"));
  const file = path.join(folder, "authority.pem");
  writeFileSync(file, trusted.cert);
  caller = startScript(path.join(import.meta.dir, "client-worker.ts"), [], {
    NODE_EXTRA_CA_CERTS: file,
  });
});
afterAll(async () => {
  caller.process.stdin.end();
  await caller.exitCode;
  rmSync(folder, { recursive: true });
});
afterEach(stopServers);

async function call(way: string, url: string, bodyBytes = 2): Promise<string> {
  caller.process.stdin.write(`${way} ${url} ${bodyBytes}\n`);
  return (await caller.waitForLine("told ")).slice("told ".length);
}

const urlByName = ({ port }: ScriptedServer): string => `https://localhost:${port}/v1`;
const urlByAddress = ({ port }: ScriptedServer): string => `https://127.0.0.1:${port}/v1`;

/** A server that counts every byte that it is told in confidence. */
async function startTlsServer(certified: Certificate) {
  const heard = { bytes: 0 };
  const script = respondToAll(({ body }) => okReply(`heard ${body.length}`));
  const server = await startServer(
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
      const { server } = await startTlsServer(trusted.issueCertificate({ hosts: ["localhost"] }));
      for (let count = 0; count < 3; count++)
        expect(await call(way, urlByName(server))).toBe("200 heard 2");
      expect(server.connections.length).toBe(1);
      expect(server.requests[0]?.headers).toMatchObject({
        authorization: "Bearer top-secret",
        host: `localhost:${server.port}`,
      });
    });

    test("may be of 20 MB", async () => {
      const { server } = await startTlsServer(trusted.issueCertificate({ hosts: ["localhost"] }));
      expect(await call(way, urlByName(server), 20_000_000)).toBe("200 heard 20000000");
    });

    test("may go to an address without a name, where the certificate says that address", async () => {
      const { server } = await startTlsServer(trusted.issueCertificate({ hosts: ["127.0.0.1"] }));
      expect(await call(way, urlByAddress(server))).toBe("200 heard 2");
    });

    for (const [title, certify, urlOf, sentence] of [
      [
        "an authority that nobody trusts has signed for",
        () => createCertificateAuthority("Anybody").issueCertificate({ hosts: ["localhost"] }),
        urlByName,
        /unable to verify/i,
      ],
      [
        "has a certificate of another host",
        () => trusted.issueCertificate({ hosts: ["localhost.example.com", "example.com"] }),
        urlByName,
        /altname/i,
      ],
      [
        "has a certificate of everything below a host",
        () => trusted.issueCertificate({ hosts: ["*.localhost"] }),
        urlByName,
        /altname/i,
      ],
      [
        "has a certificate of another address",
        () => trusted.issueCertificate({ hosts: ["127.0.0.2", "localhost"] }),
        urlByAddress,
        /altname/i,
      ],
      [
        "has a certificate of an address and is called by a name",
        () => trusted.issueCertificate({ hosts: ["127.0.0.1"] }),
        urlByName,
        /altname/i,
      ],
      [
        "has a certificate that has expired",
        () =>
          trusted.issueCertificate({
            hosts: ["localhost"],
            validFrom: new Date(Date.now() - 2 * HOUR_MS),
            validUntil: new Date(Date.now() - HOUR_MS),
          }),
        urlByName,
        /expired/i,
      ],
      [
        "has a certificate that is not valid yet",
        () =>
          trusted.issueCertificate({
            hosts: ["localhost"],
            validFrom: new Date(Date.now() + HOUR_MS),
            validUntil: new Date(Date.now() + 2 * HOUR_MS),
          }),
        urlByName,
        /not yet valid/i,
      ],
    ] as const)
      test(`says not one byte to who ${title}, and why`, async () => {
        const { server, heard } = await startTlsServer(certify());
        const told = await call(way, urlOf(server));
        expect(told).toStartWith("error ");
        expect(told).toMatch(sentence);
        expect(told).not.toContain("top-secret");
        expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
        await Bun.sleep(20);
        expect(heard.bytes).toBe(0);
      });

    test("says not one byte to who does not encrypt", async () => {
      const heard: Buffer[] = [];
      const server = await startServer(({ socket, send }) => {
        socket.on("data", (bytes: Buffer) => {
          heard.push(bytes);
          send(okReply("in the clear"));
        });
      });
      expect(await call(way, urlByName(server))).toStartWith("error ");
      const all = Buffer.concat(heard).toString("latin1");
      expect(all).not.toContain("top-secret");
      expect(all).not.toContain("POST");
      expect(await waitUntil(() => server.openConnectionCount() === 0)).toBe(true);
    });
  });

describe("a secure reply that lasts until the connection closes", () => {
  /** Somebody on the way, who can close what he cannot read. */
  const between = (server: ScriptedServer): Promise<ScriptedServer> =>
    startServer(({ socket }) => {
      const other = connect(server.port, "127.0.0.1");
      other.on("error", () => {});
      socket.on("data", (bytes: Buffer) => other.write(bytes));
      socket.on("close", () => other.destroy());
      other.on("data", (bytes: Buffer) => socket.write(bytes));
      void waitUntil(() => server.requests.length === 1).then(async () => {
        await Bun.sleep(50);
        socket.resetAndDestroy();
      });
    });

  test("is whole where the close is said in confidence", async () => {
    const { server } = await speaking(({ socket }) => socket.end());
    expect(await call("own", urlByName(server))).toBe("200 half");
  });

  test("is cut where somebody on the way resets the connection", async () => {
    const { server } = await speaking(() => {});
    const way = await between(server);
    expect(await call("own", urlByName(way))).toBe("error Error: the reply was truncated");
  });

  async function speaking(close: (line: ServerConnection) => void) {
    const server = await startServer(
      async (line) => {
        await line.request();
        line.send("HTTP/1.1 200 OK\r\n\r\nhalf");
        await Bun.sleep(30);
        close(line);
      },
      { certified: trusted.issueCertificate({ hosts: ["localhost"] }) },
    );
    return { server };
  }
});
