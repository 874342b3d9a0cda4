// The address of a rented node has its key in it, and a facilitator's may: whatever goes wrong there, no log says one.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { describeError } from "../../../src/base/log.ts";
import { secret } from "../../../src/base/secret.ts";
import { createChainClient } from "../../../src/billing/x402/chain-client.ts";
import { createFacilitatorClient } from "../../../src/billing/x402/facilitator-client.ts";
import { checkX402 } from "../../../src/commands/doctor/check-x402.ts";
import { readConfig } from "../../../src/config/config.ts";
import { createPayment } from "./wallet.ts";

setDefaultTimeout(60_000);

const KEY = "a-key-that-nobody-else-may-read";

describe("an address that is to stay unknown", () => {
  let server: Bun.Server<undefined>;
  beforeAll(() => {
    server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      development: false,
      fetch: (request) => {
        const { pathname } = new URL(request.url);
        if (pathname.startsWith("/away"))
          return Response.redirect(`http://127.0.0.1:1/${KEY}`, 302);
        return pathname.startsWith("/mute")
          ? new Promise<Response>(() => {})
          : new Response("no", { status: 500 });
      },
    });
  });
  afterAll(() => server.stop(true));

  const places = (): readonly string[] => [
    `${server.url.origin}/away/${KEY}`,
    `${server.url.origin}/broken/${KEY}`,
    `http://127.0.0.1:1/${KEY}`,
    `http://name.invalid/${KEY}`,
    `https://${server.url.host}/${KEY}`,
  ];

  async function thrownBy(work: Promise<unknown>): Promise<string> {
    const error = await work.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(Error);
    return describeError(error) + JSON.stringify(error) + Bun.inspect(error);
  }

  test("is in no error of a node", async () => {
    const { signed } = await createPayment();
    for (const place of places()) {
      const said = await thrownBy(createChainClient(secret(place)).findPayment(signed, 0));
      expect(said).not.toContain(KEY);
    }
    const away = await thrownBy(
      createChainClient(secret(places()[0] ?? "")).findPayment(signed, 0),
    );
    expect(away).toContain("the request failed: UnexpectedRedirect");
  });

  test("is in no error of a facilitator, nor in what it is said to have answered", async () => {
    const { requirement, signed } = await createPayment();
    for (const url of [...places(), `${server.url.origin}/mute/${KEY}`]) {
      const facilitator = createFacilitatorClient({
        url,
        verifyTimeoutMs: 300,
        settleTimeoutMs: 300,
      });
      expect(await thrownBy(facilitator.verify(signed, requirement))).not.toContain(KEY);
      const settled = await facilitator.settle(signed, requirement);
      expect(settled.kind).toBe("unknown");
      expect(JSON.stringify(settled)).not.toContain(KEY);
    }
  });

  test("is in no line of postern doctor, and not in the settings as they print", async () => {
    for (const place of places()) {
      const read = readConfig({
        env: {
          X402_PAY_TO: `0x${"34".repeat(20)}`,
          X402_FACILITATOR_URL: place,
          X402_RPC_URL: place,
        },
        hostName: "test",
        providers: [],
      });
      if (!read.ok) throw new Error(read.errors.join("; "));
      expect(JSON.stringify(await checkX402(read.config))).not.toContain(KEY);
      expect(JSON.stringify(read.config.x402?.rpcUrl)).toBe('"[secret]"');
    }
  });
});
