// Alerts for the operator: when they are sent, repeated and resolved, and what the webhook and the command send.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { signatureHeaders } from "../../src/activity/webhook-signature.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { createLog } from "../../src/base/log.ts";
import { DAY_MS, MINUTE_MS } from "../../src/base/time.ts";
import { type AlertMessage, createAlerts } from "../../src/operations/alerts.ts";
import { createAlertChannels } from "../../src/server/operator-alerts.ts";
import { runInProcess } from "../support/run-command.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { openStore } from "../support/stores/stores.ts";

const SIGNING = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const START = Date.UTC(2026, 10, 23);

describe("operator alerts", () => {
  const log = createLog({ level: "error", isPretty: false, now: () => START, write: () => {} });

  test("are sent once a problem lasts, repeated daily, and resolved", async () => {
    let [now, problem, accepts] = [START, "down" as string | undefined, true];
    const sent: string[] = [];
    const run = createAlerts({
      checks: [
        { alert: "provider_down", lastsMs: 5 * MINUTE_MS, findProblem: async () => problem },
      ],
      channels: [
        async ({ status, message }) => {
          if (!accepts) throw new Error("refused");
          sent.push(`${status}: ${message}`);
        },
      ],
      log,
      now: () => now,
    });
    const runAfter = async (ms: number) => {
      now += ms;
      await run();
      return sent.splice(0);
    };
    expect(await runAfter(0)).toEqual([]);
    expect(await runAfter(4 * MINUTE_MS)).toEqual([]);
    accepts = false;
    expect(await runAfter(MINUTE_MS)).toEqual([]);
    accepts = true;
    expect(await runAfter(MINUTE_MS)).toEqual(["problem: down"]);
    expect(await runAfter(MINUTE_MS)).toEqual([]);
    expect(await runAfter(DAY_MS)).toEqual(["problem: down"]);
    problem = undefined;
    expect(await runAfter(MINUTE_MS)).toEqual(["recovered: down"]);
    expect(await runAfter(MINUTE_MS)).toEqual([]);
    problem = "briefly";
    expect(await runAfter(MINUTE_MS)).toEqual([]);
    problem = undefined;
    expect(await runAfter(MINUTE_MS)).toEqual([]);
  });
});

describe("the channels of alerts", () => {
  const requests: { readonly headers: Headers; readonly body: string }[] = [];
  let status = 200;
  let receiver: ReturnType<typeof Bun.serve>;
  beforeAll(() => {
    receiver = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: async (request) => {
        requests.push({ headers: request.headers, body: await request.text() });
        return new Response("", { status });
      },
    });
  });
  afterAll(() => receiver.stop(true));
  const url = () => `http://127.0.0.1:${receiver.port}/alerts`;

  test("the webhook is signed, and a refusal is an error", async () => {
    const webhook = { url: url(), secret: secret(SIGNING) };
    const [send] = createAlertChannels({ alerts: { webhook }, baseUrl: "https://gateway.test" });
    const message: AlertMessage = {
      alert: "disk_low",
      status: "problem",
      message: "m",
      since: START,
      at: START,
    };
    await send?.(message);
    const [{ headers, body } = { headers: new Headers(), body: "" }] = requests.splice(0);
    expect(JSON.parse(body)).toMatchObject({
      type: "operator.disk_low",
      data: { status: "problem", gateway: "https://gateway.test" },
    });
    const id = headers.get("webhook-id") ?? "";
    expect(headers.get("webhook-signature")).toBe(
      signatureHeaders({ id, at: START, body }, [secret(SIGNING)])["webhook-signature"] ?? "",
    );
    status = 500;
    expect(await send?.(message).catch(String)).toContain("responded with 500");
    status = 200;
    requests.splice(0);
  });

  test("verify-ledger --alert reports a difference, and settings are checked", async () => {
    const store = await openStore("sqlite");
    await store.db.write((tx) =>
      tx.run("insert into account (id, created_at, created_from) values ('acct_x', 1, 'x')"),
    );
    await store.db.close();
    const settings = {
      POSTERN_DATA_DIR: store.location.address,
      POSTERN_ALERT_WEBHOOK_URL: url(),
      POSTERN_ALERT_WEBHOOK_SECRET: SIGNING,
    };
    const result = await runInProcess(["admin", "verify-ledger", "--alert"], settings);
    expect(result.code).toBe(1);
    expect(requests.map(({ body }) => String(JSON.parse(body).type))).toEqual([
      "operator.ledger_problem",
    ]);
    const half = await runInProcess(["doctor"], { POSTERN_ALERT_WEBHOOK_URL: url() });
    expect(half.stdout).toContain("must be set together");
    const noMail = await runInProcess(["doctor"], { POSTERN_ALERT_EMAIL: "ops@example.com" });
    expect(noMail.stdout).toContain("POSTERN_ALERT_EMAIL needs POSTERN_SMTP_URL");
    rmSync(store.location.address, { recursive: true, force: true });
  });
});

describe("postern doctor --fix", () => {
  test("creates the data folder, makes it private and applies migrations, once", async () => {
    const folder = path.join(scratchFolder(), "data");
    const settings = { POSTERN_DATA_DIR: folder };
    const first = await runInProcess(["doctor", "--fix"], settings);
    expect(first.stdout).toContain(`fixed: created the data folder ${folder}`);
    expect(first.stdout).toMatch(/fixed: applied 0001-schema/);
    expect(first.stdout).toContain("its schema is current");
    expect(existsSync(path.join(folder, "postern.db"))).toBe(true);
    expect((await runInProcess(["doctor", "--fix"], settings)).stdout).not.toContain("fixed:");
    rmSync(path.dirname(folder), { recursive: true, force: true });

    const open = path.join(scratchFolder(), "open");
    mkdirSync(open, { mode: 0o755 });
    const second = await runInProcess(["doctor", "--fix"], { POSTERN_DATA_DIR: open });
    expect(second.stdout).toContain(`made ${open} readable only by its owner`);
    expect(statSync(open).mode & 0o777).toBe(0o700);
    rmSync(path.dirname(open), { recursive: true, force: true });
  });
});
