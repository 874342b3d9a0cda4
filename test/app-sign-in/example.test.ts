// The example program that signs its user in, as a reader runs it.

import { expect, test } from "bun:test";
import path from "node:path";
import { createUser, makeOwner, visitPage } from "../billing/console-user.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

const EXAMPLE = path.join(import.meta.dir, "../../examples/sign-in-with-postern.ts");

test("examples/sign-in-with-postern.ts gets a key by its user's consent and calls a model", async () => {
  const gateway = await startGateway();
  const account = await registerAccount(gateway);
  const owner = await createUser(gateway, "example-user", Date.now());
  await makeOwner(gateway, account.id, owner);
  const child = Bun.spawn([process.execPath, EXAMPLE, gateway.url], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const output = child.stdout.getReader();
  let printed = "";
  while (!printed.includes("\n")) {
    const { value, done } = await output.read();
    if (done) break;
    printed += new TextDecoder().decode(value);
  }
  const asked = new URL(printed.slice("Open ".length).trim());
  const form = Object.fromEntries(asked.searchParams);
  const choice = { do: "approve", account: account.id, days: "30", models: "" };
  const decided = await visitPage(gateway, "/connect", owner, { ...form, ...choice });
  expect((await fetch(decided.location ?? "")).status).toBe(200);
  const { value } = await output.read();
  expect(new TextDecoder().decode(value)).toContain("The first call with the key: 200");
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, ""]);
  await gateway.stop();
});
