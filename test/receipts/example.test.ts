// The example program that compares quotes and verifies a receipt, as a reader runs it.

import { expect, test } from "bun:test";
import { startGateway } from "../support/gateway.ts";
import { runExample } from "../support/run-example.ts";

test("examples/quote-and-receipt.ts calls the cheapest model and verifies its receipt", async () => {
  const gateway = await startGateway();
  const output = await runExample("quote-and-receipt.ts", gateway.url, "sim/tools", "sim/echo");
  expect(output).toContain("costs at most $0.000");
  expect(output).toContain("the receipt is valid, and of this reply: true");
  await gateway.stop();
});
