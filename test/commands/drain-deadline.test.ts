// A process that is asked to stop while providers still work for callers who are not there.

import { afterEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import path from "node:path";
import {
  createTempFolder,
  type RunningProcess,
  runPostern,
  startPostern,
  stopPostern,
  stopAll,
} from "./run-postern.ts";

const ENDLESS = "[[sim: chunks=400 pace=100 tokens=400]] go on";
const JSON_TYPE = { "content-type": "application/json" };

afterEach(stopAll);

describe("the end of the drain", () => {
  test("a background response that would go on is stopped, has failed, and is charged for what it made", async () => {
    const place = createTempFolder();
    const running = await startPostern([], { ...place.settings, POSTERN_DRAIN_SECONDS: "1" });
    const { headers, account } = await createAccount(running);
    const accepted = await fetch(`${running.url}/v1/responses`, {
      method: "POST",
      headers,
      body: JSON.stringify({ model: "sim/echo", background: true, store: true, input: ENDLESS }),
    });
    const { id } = await accepted.json();
    await Bun.sleep(500);
    await expectCharged(running, place.settings, account);
    const again = await startPostern([], place.settings);
    const kept = await (await fetch(`${again.url}/v1/responses/${id}`, { headers })).json();
    expect(kept.status).toBe("failed");
    expect(kept.error.message).toStartWith("The gateway stopped while");
    await stopPostern(again);
    place.remove();
  }, 30_000);

  test("a stream that is cut off is charged for what was relayed, also where leaving does not end the bill", async () => {
    const place = createTempFolder();
    const simulator = await startPostern(["simulate", "--port", "0"], {});
    const models = path.join(place.folder, "models.json");
    writeFileSync(models, JSON.stringify(modelsFileFor(`${simulator.url}/v1`)));
    const running = await startPostern([], {
      ...place.settings,
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
    const read = stream.text().catch(() => "cut");
    await Bun.sleep(500);
    await expectCharged(running, place.settings, account);
    await read;
    await stopPostern(simulator);
    place.remove();
  }, 30_000);
});

/** A provider that goes on and charges for it, whoever has left. */
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
  const shown = (await runPostern(["admin", "show", account], settings)).stdout;
  expect(shown).toContain("held       0 USD");
  expect(shown).not.toContain("balance    0.05 USD");
  const verified = (await runPostern(["admin", "verify-ledger"], settings)).stdout;
  expect(verified).toMatch(/0 open holds.* 1 usage records/);
}
