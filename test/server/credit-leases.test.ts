// Credit leases in a gateway on PostgreSQL: calls of a busy key over HTTP, their charges, and a revocation.

import { expect, test } from "bun:test";
import { integer } from "../../src/store/db.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

const CALLS_AT_ONCE = 16;

test("calls of a busy key are charged once each, and a revocation ends them", async () => {
  const gateway = await startGateway({ store: "postgres" });
  const { db } = gateway.server;
  const account = await registerAccount(gateway);
  const headers = { ...account.headers, "content-type": "application/json" };
  let isStream = false;
  const call = async (): Promise<number> => {
    isStream = !isStream;
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify({
        model: "sim/tiny",
        max_tokens: 4,
        stream: isStream,
        messages: [{ role: "user", content: "hello" }],
      }),
    });
    await response.text();
    return response.status;
  };
  let calls = 0;
  const callTogether = async (): Promise<void> => {
    const statuses = await Promise.all(Array.from({ length: CALLS_AT_ONCE }, call));
    expect(new Set(statuses)).toEqual(new Set([200]));
    calls += statuses.length;
  };
  const openLeases = () => db.all("select id from hold where lease is not null");
  await callTogether();
  await eventually(async () => {
    await callTogether();
    return (await openLeases()).length > 0;
  });
  await callTogether();
  const charged = await db.get("select count(*) as calls from usage_record where cost_nano > 0");
  expect(integer(charged ?? {}, "calls")).toBe(calls);
  const revoked = await fetch(`${gateway.url}/v1/keys/self`, { headers });
  const { id } = (await revoked.json()) as { id: string };
  const { status } = await fetch(`${gateway.url}/v1/keys/${id}`, { method: "DELETE", headers });
  expect(status).toBe(200);
  expect(await call()).toBe(401);
  await eventually(async () => (await openLeases()).length === 0);
  expect((await verifyLedger(db)).problems).toEqual([]);
  await gateway.stop();
});
