// The client must verify the server's certificate before it sends anything, because requests contain API keys.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  type CertificateAuthority,
  type Certificate,
  createCertificateAuthority,
} from "../../../test/support/certificate-authority.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { type ScriptProcess, startScript } from "../../../test/support/script-process.ts";
import {
  respondToAll,
  type ServerConnection,
  okReply,
  type ScriptedServer,
  startServer,
  stopServers,
} from "./scripted-server.ts";

const HOUR_MS = 3_600_000;

let trusted: CertificateAuthority;
let worker: ScriptProcess;
let folder: string;

beforeAll(() => {
  trusted = createCertificateAuthority("Trusted CA");
  folder = mkdtempSync(path.join(tmpdir(), "postern-tls-"));
  const file = path.join(folder, "authority.pem");
  writeFileSync(file, trusted.cert);
  worker = startScript(path.join(import.meta.dir, "client-worker.ts"), [], {
    NODE_EXTRA_CA_CERTS: file,
  });
});
afterAll(async () => {
  worker.process.stdin.end();
  await worker.exitCode;
  rmSync(folder, { recursive: true });
});
afterEach(stopServers);

async function call(client: string, url: string, bodyBytes = 2): Promise<string> {
  worker.process.stdin.write(`${client} ${url} ${bodyBytes}\n`);
  return (await worker.waitForLine("result ")).slice("result ".length);
}

const urlByName = ({ port }: ScriptedServer): string => `https://localhost:${port}/v1`;
const urlByAddress = ({ port }: ScriptedServer): string => `https://127.0.0.1:${port}/v1`;

/** A TLS server that counts decrypted bytes. */
async function startTlsServer(certificate: Certificate) {
  const received = { bytes: 0 };
  const script = respondToAll(({ body }) => okReply(`received ${body.length}`));
  const server = await startServer(
    (connection) => {
      connection.socket.on("data", ({ length }: Buffer) => {
        received.bytes += length;
      });
      void script(connection);
    },
    { certificate },
  );
  return { server, received };
}

for (const [client, name] of [
  ["own", "our own client"],
  ["runtime", "fetch"],
] as const)
  describe(`TLS with ${name}`, () => {
    test("accepts a valid certificate and reuses the connection", async () => {
      const { server } = await startTlsServer(trusted.issueCertificate({ hosts: ["localhost"] }));
      for (let count = 0; count < 3; count++)
        expect(await call(client, urlByName(server))).toBe("200 received 2");
      expect(server.connections.length).toBe(1);
      expect(server.requests[0]?.headers).toMatchObject({
        authorization: "Bearer top-secret",
        host: `localhost:${server.port}`,
      });
    });

    test("sends a body of 20 MB", async () => {
      const { server } = await startTlsServer(trusted.issueCertificate({ hosts: ["localhost"] }));
      expect(await call(client, urlByName(server), 20_000_000)).toBe("200 received 20000000");
    });

    test("accepts an IP address that is in the certificate", async () => {
      const { server } = await startTlsServer(trusted.issueCertificate({ hosts: ["127.0.0.1"] }));
      expect(await call(client, urlByAddress(server))).toBe("200 received 2");
    });

    for (const [title, issue, urlOf, message] of [
      [
        "of an untrusted CA",
        () => createCertificateAuthority("Untrusted CA").issueCertificate({ hosts: ["localhost"] }),
        urlByName,
        /unable to verify/i,
      ],
      [
        "of another host",
        () => trusted.issueCertificate({ hosts: ["localhost.example.com", "example.com"] }),
        urlByName,
        /altname/i,
      ],
      [
        "of the subdomains of a host",
        () => trusted.issueCertificate({ hosts: ["*.localhost"] }),
        urlByName,
        /altname/i,
      ],
      [
        "of another IP address",
        () => trusted.issueCertificate({ hosts: ["127.0.0.2", "localhost"] }),
        urlByAddress,
        /altname/i,
      ],
      [
        "of an IP address for a host name",
        () => trusted.issueCertificate({ hosts: ["127.0.0.1"] }),
        urlByName,
        /altname/i,
      ],
      [
        "that has expired",
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
        "that is not valid yet",
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
      test(`rejects a certificate ${title} without sending anything`, async () => {
        const { server, received } = await startTlsServer(issue());
        const result = await call(client, urlOf(server));
        expect(result).toStartWith("error ");
        expect(result).toMatch(message);
        expect(result).not.toContain("top-secret");
        await eventually(() => server.openConnectionCount() === 0);
        expect(received.bytes).toBe(0);
      });

    test("sends no request to a server without TLS", async () => {
      const received: Buffer[] = [];
      const server = await startServer(({ socket, send }) => {
        socket.on("data", (bytes: Buffer) => {
          received.push(bytes);
          send(okReply("plain text"));
        });
      });
      expect(await call(client, urlByName(server))).toStartWith("error ");
      const all = Buffer.concat(received).toString("latin1");
      expect(all).not.toContain("top-secret");
      expect(all).not.toContain("POST");
      await eventually(() => server.openConnectionCount() === 0);
    });
  });

describe("a TLS reply that ends with the connection", () => {
  /** A proxy that resets the connection after the client has the reply. */
  const startResettingProxy = (server: ScriptedServer): Promise<ScriptedServer> =>
    startServer(({ socket }) => {
      const upstream = connect(server.port, "127.0.0.1");
      upstream.on("error", () => {});
      socket.on("data", (bytes: Buffer) => upstream.write(bytes));
      socket.on("close", () => upstream.destroy());
      upstream.on("data", (bytes: Buffer) => socket.write(bytes));
      const { length } = worker.lines;
      const hasReply = (): boolean =>
        worker.lines.slice(length).some((line) => line.startsWith("chunk"));
      void eventually(hasReply).then(() => socket.resetAndDestroy());
    });

  test("is complete after a close_notify", async () => {
    const { server } = await startPartialServer(({ socket }) => socket.end());
    expect(await call("own", urlByName(server))).toBe("200 half");
  });

  test("is truncated after a reset without close_notify", async () => {
    const { server } = await startPartialServer(() => {});
    const proxy = await startResettingProxy(server);
    expect(await call("own", urlByName(proxy))).toBe("error Error: the reply was truncated");
  });

  async function startPartialServer(close: (connection: ServerConnection) => void) {
    const server = await startServer(
      async (connection) => {
        await connection.request();
        connection.send("HTTP/1.1 200 OK\r\n\r\nhalf");
        close(connection);
      },
      { certificate: trusted.issueCertificate({ hosts: ["localhost"] }) },
    );
    return { server };
  }
});
