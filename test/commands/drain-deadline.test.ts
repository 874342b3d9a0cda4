// The end of the drain while providers still generate replies.

import { afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { eventually } from "../support/eventually.ts";
import { runInProcess } from "../support/run-command.ts";
import {
  createTempFolder,
  type RunningProcess,
  startPostern,
  stopPostern,
  stopAll,
} from "./run-postern.ts";

const ENDLESS = "[[sim: chunks=400 pace=100 tokens=400]] go on";
const JSON_TYPE = { "content-type": "application/json" };

afterEach(stopAll);

describe("the end of the drain", () => {
  test("fails a background response and charges what it generated", async () => {
    const tempFolder = createTempFolder();
    const running = await startPostern([], { ...tempFolder.settings, POSTERN_DRAIN_SECONDS: "1" });
    const { headers, account } = await createAccount(running);
    const accepted = await fetch(`${running.url}/v1/responses`, {
      method: "POST",
      headers,
      body: JSON.stringify({ model: "sim/echo", background: true, store: true, input: ENDLESS }),
    });
    const { id } = await accepted.json();
    await eventually(async () => {
      const response = await fetch(`${running.url}/v1/responses/${id}`, { headers });
      return (await response.json()).status === "in_progress";
    });
    await expectCharged(running, tempFolder.settings, account);
    const again = await startPostern([], tempFolder.settings);
    const kept = await (await fetch(`${again.url}/v1/responses/${id}`, { headers })).json();
    expect(kept.status).toBe("failed");
    expect(kept.error.message).toStartWith("The gateway stopped while");
    await stopPostern(again);
    tempFolder.remove();
  });

  test("answers a call with 503, without a charge, and ends a stream with an error", async () => {
    const tempFolder = createTempFolder();
    const running = await startPostern([], { ...tempFolder.settings, POSTERN_DRAIN_SECONDS: "1" });
    const { headers, account } = await createAccount(running);
    const slow = "[[sim: latency=30000]] go on";
    const call = (stream: boolean): Promise<Response> =>
      fetch(`${running.url}/v1/chat/completions`, {
        method: "POST",
        headers,
        body: JSON.stringify({
          model: "sim/echo",
          stream,
          messages: [{ role: "user", content: stream ? ENDLESS : slow }],
        }),
      });
    const heldCredits = async (): Promise<number> =>
      (await (await fetch(`${running.url}/v1/account`, { headers })).json()).balance.held_credits;
    const stream = await call(true);
    const streamed = stream.text();
    const heldByStream = await heldCredits();
    const whole = call(false);
    await eventually(async () => (await heldCredits()) > heldByStream);
    const { code } = await stopPostern(running);
    expect(code).toBe(0);
    const refused = await whole;
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect((await refused.json()).error.message).toStartWith("The gateway shut down during");
    expect(await streamed).toContain("The gateway shut down during the call");
    const again = await startPostern([], tempFolder.settings);
    const usage = await (await fetch(`${again.url}/v1/usage`, { headers })).json();
    const records: { stream: boolean; outcome: string; cost_usd: string }[] = usage.data;
    expect(records.map(({ outcome }) => outcome)).toEqual(["shut_down", "shut_down"]);
    expect(Number(records.find((record) => !record.stream)?.cost_usd)).toBe(0);
    expect(Number(records.find((record) => record.stream)?.cost_usd)).toBeGreaterThan(0);
    await stopPostern(again);
    const shown = (await runInProcess(["admin", "show", account], tempFolder.settings)).stdout;
    expect(shown).toContain("held       $0.00");
    tempFolder.remove();
  });

  test("serves requests for the shutdown delay while /readyz already answers 503", async () => {
    const tempFolder = createTempFolder();
    const running = await startPostern([], {
      ...tempFolder.settings,
      POSTERN_SHUTDOWN_DELAY_SECONDS: "600",
    });
    running.process.kill("SIGTERM");
    const ready = (): Promise<Response> => fetch(`${running.url}/readyz`);
    await eventually(async () => (await ready()).status === 503);
    const served = await fetch(`${running.url}/v1/models`);
    expect(served.status).toBe(200);
    expect(served.headers.get("connection")).toBe("close");
    const { account } = await createAccount(running);
    expect(account).toStartWith("acct_");
    // The signals of the first second are ignored.
    await eventually(() => {
      running.process.kill("SIGINT");
      return running.process.exitCode !== null;
    });
    expect((await running.exited).code).toBe(0);
    const brief = { ...tempFolder.settings, POSTERN_SHUTDOWN_DELAY_SECONDS: "1" };
    expect((await stopPostern(await startPostern([], brief))).code).toBe(0);
    tempFolder.remove();
  });

  test("charges a stream for relayed tokens, even if the provider keeps billing after an abort", async () => {
    const tempFolder = createTempFolder();
    const simulator = await startPostern(["simulate", "--port", "0"], {});
    const models = path.join(tempFolder.folder, "models.json");
    writeFileSync(models, JSON.stringify(modelsFileFor(`${simulator.url}/v1`)));
    const running = await startPostern([], {
      ...tempFolder.settings,
      POSTERN_DRAIN_SECONDS: "1",
      POSTERN_MODELS_FILE: models,
    });
    const { headers, account } = await createAccount(running);
    const stream = await fetch(`${running.url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify({
        model: "own/echo",
        stream: true,
        messages: [{ role: "user", content: ENDLESS }],
      }),
    });
    expect(stream.status).toBe(200);
    const chunks = stream.body?.getReader();
    await chunks?.read();
    await expectCharged(running, tempFolder.settings, account);
    await chunks?.cancel().catch(() => {});
    await stopPostern(simulator);
    tempFolder.remove();
  });
});

/** A provider that does not stop billing when the client aborts. */
function modelsFileFor(base_url: string) {
  return {
    providers: [{ id: "own", base_url, wires: ["chat"], stops_billing_on_abort: false }],
    models: [
      {
        id: "own/echo",
        context_length: 8_000,
        max_output_tokens: 1_000,
        pricing: { tokens: { input: "1", output: "10" } },
      },
    ],
  };
}

async function createAccount({ url }: RunningProcess) {
  const made = await fetch(`${url}/v1/accounts`, {
    method: "POST",
    headers: JSON_TYPE,
    body: "{}",
  });
  const { account, api_key: key } = await made.json();
  return {
    headers: { ...JSON_TYPE, authorization: `Bearer ${key}` },
    account: String(account.id),
  };
}

async function expectCharged(
  running: RunningProcess,
  settings: Readonly<Record<string, string>>,
  account: string,
): Promise<void> {
  const { code, stdout } = await stopPostern(running);
  expect(stdout).not.toContain("before every call was settled");
  expect(code).toBe(0);
  const shown = (await runInProcess(["admin", "show", account], settings)).stdout;
  expect(shown).toContain("held       $0.00");
  expect(shown).not.toContain("balance    $0.05");
  const verified = (await runInProcess(["admin", "verify-ledger"], settings)).stdout;
  expect(verified).toMatch(/0 open holds.* 1 usage records/);
}
