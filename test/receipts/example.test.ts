// The example program that compares quotes and verifies a receipt, as a reader runs it.

import { expect, test } from "bun:test";
import path from "node:path";
import { startGateway } from "../support/gateway.ts";

const EXAMPLE = path.join(import.meta.dir, "../../examples/quote-and-receipt.ts");

test("examples/quote-and-receipt.ts calls the cheapest model and verifies its receipt", async () => {
  const gateway = await startGateway();
  const child = Bun.spawn([process.execPath, EXAMPLE, gateway.url, "sim/tools", "sim/echo"], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const output = await new Response(child.stdout).text();
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, ""]);
  expect(output).toContain("costs at most $0.000");
  expect(output).toContain("the receipt is valid, and of this reply: true");
  await gateway.stop();
});
