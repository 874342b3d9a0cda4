// `postern connect` at a gateway that requires proof of work: refused, it solves the challenge and tries again.

import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { call, textAt, valueAt } from "../spec/api-client.ts";
import { startGateway } from "../support/gateway.ts";
import { runInProcess } from "../support/run-command.ts";

test("connect solves the proof of work of a gateway and creates an account", async () => {
  const gateway = await startGateway({ env: { POSTERN_PROOF_OF_WORK_BITS: "8" } });
  const home = mkdtempSync(path.join(tmpdir(), "postern-connect-"));
  try {
    const refused = await call(gateway, "POST /v1/accounts", { body: {} });
    expect(refused.status).toBeGreaterThanOrEqual(400);
    const args = ["connect", "codex", "--yes", "--model", "sim/echo", "--url", gateway.url];
    const { code, stdout } = await runInProcess(args, { HOME: home });
    expect([code, stdout]).toEqual([0, expect.stringContaining("asks for a proof of work")]);
    const file = `.postern/${new URL(gateway.url).host.replace(":", "-")}.json`;
    const key = textAt(JSON.parse(readFileSync(path.join(home, file), "utf8")), "api_key");
    const account = await call(gateway, "GET /v1/account", { key });
    expect([account.status, valueAt(account.body, "balance.credits")]).toEqual([200, 50_000]);
  } finally {
    await gateway.stop();
    rmSync(home, { recursive: true, force: true });
  }
});
