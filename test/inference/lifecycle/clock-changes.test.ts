// The system clock is set back while a call runs.

import { afterAll, expect, test } from "bun:test";
import { registerAccount, startGateway } from "../../support/gateway.ts";

let now = Date.now();

const gateway = await startGateway({ now: () => (now -= 10) });
const account = await registerAccount(gateway);
afterAll(() => gateway.stop());

interface Timed {
  readonly stream: boolean;
  readonly latency_ms: number;
  readonly first_token_ms: number | null;
  readonly attempts: readonly { readonly ms: number }[];
}

for (const stream of [false, true])
  test(`records no negative durations for a ${stream ? "stream" : "whole reply"} if the clock is set back`, async () => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: "sim/echo",
        stream,
        max_tokens: 50,
        messages: [{ role: "user", content: "what time is it?" }],
      }),
    });
    expect(response.status).toBe(200);
    await response.text();
    const usage = await fetch(`${gateway.url}/v1/usage`, { headers: account.headers });
    const { data } = (await usage.json()) as { readonly data: readonly Timed[] };
    const record = data.find((entry) => entry.stream === stream);
    expect(record?.attempts.map(({ ms }) => ms)).toEqual([0]);
    expect([record?.latency_ms, record?.first_token_ms]).toEqual([0, stream ? 0 : null]);
  });
