// URLs of nodes and facilitators can contain an API key, so no error or log contains them.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { secret } from "../../../src/base/crypto/secret.ts";
import { describeError } from "../../../src/base/log.ts";
import { createChainClient } from "../../../src/billing/x402/chain-client.ts";
import { createFacilitatorClient } from "../../../src/billing/x402/facilitator-client.ts";
import { checkX402 } from "../../../src/commands/doctor/check-agent-payments.ts";
import { readConfig } from "../../../src/config/config.ts";
import { createPayment } from "./wallet.ts";

const KEY = "an-api-key-in-the-url";

describe("a URL with an API key", () => {
  let server: Bun.Server<undefined>;
  beforeAll(() => {
    server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      development: false,
      fetch: (request) => {
        const { pathname } = new URL(request.url);
        if (pathname.startsWith("/redirect"))
          return Response.redirect(`http://127.0.0.1:1/${KEY}`, 302);
        return pathname.startsWith("/hang")
          ? new Promise<Response>(() => {})
          : new Response("no", { status: 500 });
      },
    });
  });
  afterAll(() => server.stop(true));

  const urls = (): readonly string[] => [
    `${server.url.origin}/redirect/${KEY}`,
    `${server.url.origin}/broken/${KEY}`,
    `http://127.0.0.1:1/${KEY}`,
    `http://name.invalid/${KEY}`,
    `https://${server.url.host}/${KEY}`,
  ];

  async function describeRejection(work: Promise<unknown>): Promise<string> {
    const error = await work.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(Error);
    return describeError(error) + JSON.stringify(error) + Bun.inspect(error);
  }

  test("is not in errors of the node", async () => {
    const { signed } = await createPayment();
    for (const url of urls()) {
      const error = await describeRejection(createChainClient(secret(url)).findPayment(signed, 0));
      expect(error).not.toContain(KEY);
    }
    const redirected = await describeRejection(
      createChainClient(secret(urls()[0] ?? "")).findPayment(signed, 0),
    );
    expect(redirected).toContain("the request failed: UnexpectedRedirect");
  });

  test("is not in errors or outcomes of the facilitator", async () => {
    const { requirements, signed } = await createPayment();
    for (const url of [...urls(), `${server.url.origin}/hang/${KEY}`]) {
      const facilitator = createFacilitatorClient({
        url,
        verifyTimeoutMs: 300,
        settleTimeoutMs: 300,
      });
      expect(await describeRejection(facilitator.verify(signed, requirements))).not.toContain(KEY);
      const settled = await facilitator.settle(signed, requirements);
      expect(settled.kind).toBe("unknown");
      expect(JSON.stringify(settled)).not.toContain(KEY);
    }
  });

  test("is not in the output of postern doctor or in printed settings", async () => {
    for (const url of urls()) {
      const read = readConfig({
        env: {
          X402_PAY_TO: `0x${"34".repeat(20)}`,
          X402_FACILITATOR_URL: url,
          X402_RPC_URL: url,
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
