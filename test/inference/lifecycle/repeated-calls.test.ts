// Calls that get the reply of an earlier one cost nothing and have no hold, so they are counted like rejected ones.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { bodyOf, grantCredits, postCall, USD, withHeaders } from "../support/harness.ts";

/** With a burst of ten. */
const PER_MINUTE = 60;
const now = Date.now();
let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway({
    now: () => now,
    env: { POSTERN_REQUESTS_PER_MINUTE: String(PER_MINUTE) },
  });
});
afterAll(() => gateway.stop());

test.each([
  ["the response cache", { "x-postern-cache": "3600" }],
  ["an Idempotency-Key", { "idempotency-key": "repeated-again-and-again" }],
])("repetitions by %s count towards the requests of a key", async (_, headers) => {
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, USD);
  const statuses: number[] = [];
  for (let index = 0; index < 12; index++) {
    const response = await postCall(
      gateway,
      withHeaders(account, headers),
      "chat",
      bodyOf("chat", "Hi"),
    );
    await response.text();
    statuses.push(response.status);
  }
  // The first is counted by its hold.
  expect(statuses).toEqual([...Array.from({ length: 11 }, () => 200), 429]);
});
