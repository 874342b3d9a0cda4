// The example program that pays for a call from a wallet, as a reader runs it.

import { expect, test } from "bun:test";
import path from "node:path";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { startFacilitator } from "../../support/fakes/x402-facilitator.ts";
import { startGateway } from "../../support/gateway.ts";
import { uptoEnv } from "./upto.ts";

const EXAMPLE = path.join(import.meta.dir, "../../../examples/pay-per-call.ts");

test("examples/pay-per-call.ts pays what its call used", async () => {
  const facilitator = startFacilitator();
  const gateway = await startGateway({ env: uptoEnv(facilitator) });
  const key = generatePrivateKey();
  const { address } = privateKeyToAccount(key);
  facilitator.chain.fund(address, 100n);
  facilitator.chain.approve(address);
  const child = Bun.spawn([process.execPath, EXAMPLE, gateway.url, "sim/echo"], {
    env: { ...process.env, WALLET_KEY: key },
    stdout: "pipe",
    stderr: "pipe",
  });
  const output = await new Response(child.stdout).text();
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, ""]);
  expect(output).toContain("the receipt is valid, and of this settlement: true");
  const paid = 1_000_000n - facilitator.chain.unitsOf(address);
  expect(paid).toBeGreaterThan(0n);
  expect(output).toContain(`paid ${paid} units`);
  await gateway.stop();
  await facilitator.stop();
});
