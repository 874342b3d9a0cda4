import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Account, type Gateway, register, startGateway } from "../support/gateway.ts";
import { openReceiver } from "./receiver.ts";
import { isAuthentic } from "./verify.ts";

const receiver = openReceiver();
let gateway: Gateway;
let account: Account;

beforeAll(async () => {
  gateway = await startGateway();
  account = await register(gateway);
});
afterAll(async () => {
  await gateway.stop();
  await receiver.close();
});

async function call(method: string, path: string, body?: unknown) {
  const response = await fetch(`${gateway.url}${path}`, {
    method,
    headers: { ...account.headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return {
    status: response.status,
    body: (await response.json()) as Readonly<Record<string, unknown>>,
  };
}

async function arrived(count: number): Promise<void> {
  const until = performance.now() + 4_000;
  while (receiver.received.length < count && performance.now() < until) await Bun.sleep(10);
  expect(receiver.received.length).toBe(count);
}

test("the whole house tells a webhook what happens, signed, and writes it down", async () => {
  const { body: hook } = await call("POST", "/v1/webhooks", { url: receiver.url });
  const { body: key } = await call("POST", "/v1/keys", { name: "ci" });
  await call("DELETE", `/v1/keys/${String(key["id"])}`);
  await call("PATCH", "/v1/account/balance-alert", { low_usd: 0.05 });
  const answer = await call("POST", "/v1/chat/completions", {
    model: "sim/tiny",
    messages: [{ role: "user", content: "hello" }],
  });
  expect(answer.status).toBe(200);
  await arrived(3);
  expect(receiver.received.map(({ event }) => event["type"])).toEqual([
    "key.created",
    "key.revoked",
    "balance.low",
  ]);
  for (const { headers, body } of receiver.received)
    expect(isAuthentic(String(hook["secret"]), headers, body, Date.now())).toBe(true);
  const { body: audit } = await call("GET", "/v1/audit");
  expect((audit["data"] as readonly { action: string }[]).map(({ action }) => action)).toEqual([
    "balance_alert.changed",
    "key.revoked",
    "key.created",
    "webhook.created",
  ]);
  const canary = String(hook["secret"]).slice(6, -1);
  expect(gateway.logged.filter((line) => line.includes(canary))).toEqual([]);
});
