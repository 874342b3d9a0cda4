// The limit of concurrent calls of a key, before the body of a request is read.

import { expect, test } from "bun:test";
import { connect } from "node:net";
import { startGatedSimulator } from "../inference/support/gated-simulator.ts";
import { bodyOf, postCall } from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

test("a key at its limit gets a 429 before it has sent its body, and others are served", async () => {
  const gate = startGatedSimulator();
  const gateway = await startGateway({
    env: { SIM_BASE_URL: gate.url, POSTERN_OPEN_CALLS_PER_KEY: "2" },
  });
  const busy = await registerAccount(gateway);
  const other = await registerAccount(gateway);
  const body = bodyOf("chat", "[[sim: tokens=20]] once");
  const open = [1, 2].map(() => postCall(gateway, busy, "chat", body));
  await eventually(() => gate.waiting() === 2);
  const { port } = new URL(gateway.url);
  const socket = connect(Number(port), "127.0.0.1");
  let reply = "";
  socket.setEncoding("utf8").on("data", (text: string) => {
    reply += text;
  });
  // The body never comes.
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${busy.key}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n`,
  );
  await eventually(() => reply.includes("\r\n\r\n"));
  expect(reply).toStartWith("HTTP/1.1 429 ");
  expect(reply.toLowerCase()).toContain("retry-after: 1");
  socket.destroy();
  const served = postCall(gateway, other, "chat", body);
  await eventually(() => gate.waiting() === 3);
  gate.open();
  for (const response of await Promise.all([...open, served])) expect(response.status).toBe(200);
  expect((await postCall(gateway, busy, "chat", body)).status).toBe(200);
  await gateway.stop();
  await gate.stop();
});
