// The system clock is set forward while a stream runs, such as after a machine was suspended.

import { expect, test } from "bun:test";
import { ALL_TRANSFERS } from "../../ledger/fixtures.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import { describeEachStore } from "../../support/stores/stores.ts";

describeEachStore((kind) => {
  test(`a jump of two hours forward cuts no open stream, which is charged, on ${kind}`, async () => {
    let offsetMs = 0;
    const jumping = await startGateway({ store: kind, now: () => Date.now() + offsetMs });
    const caller = await registerAccount(jumping);
    // Limits of streams are checked once a second, so the stream takes longer than that.
    const response = await fetch(`${jumping.url}/v1/chat/completions`, {
      method: "POST",
      headers: caller.headers,
      body: JSON.stringify({
        model: "sim/echo",
        stream: true,
        max_tokens: 60,
        messages: [{ role: "user", content: "[[sim: tokens=50 pace=50]] hello" }],
      }),
    });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader?.read())?.value ?? "";
    offsetMs = 2 * 3_600_000;
    for (;;) {
      const chunk = await reader?.read();
      if (chunk === undefined || chunk.done) break;
      text += chunk.value;
    }
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(text).not.toContain('"error"');
    const { db } = jumping.server;
    const record = await db.get("select outcome, cost_nano from usage_record");
    expect(record?.["outcome"]).toBe("completed");
    const charged = await db.get(
      `select cast(sum(amount) as text) as sum from ${ALL_TRANSFERS} where kind = 'usage'`,
    );
    expect(BigInt(String(charged?.["sum"]))).toBe(BigInt(String(record?.["cost_nano"])));
    expect(BigInt(String(record?.["cost_nano"]))).toBeGreaterThan(0n);
    await jumping.stop();
  });
});
