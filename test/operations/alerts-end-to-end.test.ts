// Each operator alert of a running gateway, received by an HTTP server and an SMTP server.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { DAY_MS, MINUTE_MS, SECOND_MS } from "../../src/base/time.ts";
import { type SmtpReceiver, startSmtpReceiver } from "../email/smtp-receiver.ts";
import { eventually } from "../support/eventually.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { runInProcess } from "../support/run-command.ts";

setDefaultTimeout(60_000);
const SIGNING = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const GIB = 2 ** 30;

interface ReceivedAlert {
  readonly type: string;
  readonly data: { readonly status: string; readonly message: string };
}

describe("a running gateway alerts its operator", () => {
  const alerts: ReceivedAlert[] = [];
  let [now, freeBytes, checks] = [Date.now(), 8 * GIB, 0];
  let gateway: Gateway;
  let smtp: SmtpReceiver;
  let receiver: ReturnType<typeof Bun.serve>;
  let settings: Record<string, string>;

  beforeAll(async () => {
    smtp = await startSmtpReceiver();
    receiver = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: async (request) => {
        // Safe because only the gateway knows this address.
        alerts.push((await request.json()) as ReceivedAlert);
        return new Response();
      },
    });
    settings = {
      POSTERN_ALERT_WEBHOOK_URL: `http://127.0.0.1:${receiver.port}/alerts`,
      POSTERN_ALERT_WEBHOOK_SECRET: SIGNING,
      POSTERN_ALERT_EMAIL: "ops@example.com",
      POSTERN_SMTP_URL: smtp.url,
      POSTERN_EMAIL_FROM: "Postern <p@example.com>",
    };
    gateway = await startGateway({
      env: { ...settings, POSTERN_GRANT_USD_PER_DAY: "0.25", POSTERN_TRUSTED_PROXIES: "127.0.0.1" },
      now: () => now,
      alertIntervalMs: 10,
      readFreeBytes: () => {
        checks++;
        return freeBytes;
      },
    });
  });

  afterAll(async () => {
    await gateway.stop();
    await receiver.stop(true);
    await smtp.stop();
  });

  const nextCheck = async (): Promise<void> => {
    const start = checks;
    await eventually(async () => checks >= start + 2);
  };

  const expectAlert = async (alert: string, status: string): Promise<ReceivedAlert | undefined> => {
    const subject = `[Postern] ${alert} ${status}`;
    const find = () =>
      alerts.find(({ type, data }) => type === `operator.${alert}` && data.status === status);
    await eventually(async () => find() !== undefined);
    await eventually(async () =>
      smtp.received.some((email) => email.subject === subject && email.to[0] === "ops@example.com"),
    );
    return find();
  };

  let networks = 10;
  /** Returns the key. Each account is created in a network of its own, with its own share of the starting credit. */
  const createAccount = async (): Promise<string> => {
    const response = await fetch(`${gateway.url}/v1/accounts`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-forwarded-for": `${++networks}.0.0.1` },
      body: "{}",
    });
    expect(response.status).toBe(201);
    // Safe because the status is checked.
    const { api_key: key } = (await response.json()) as { api_key: string };
    return key;
  };

  const call = async (key: string, content: string): Promise<number> => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content }] }),
    });
    await response.body?.cancel();
    return response.status;
  };

  test("when the disk is nearly full, and when it has space again", async () => {
    freeBytes = GIB - 1;
    await expectAlert("disk_low", "problem");
    freeBytes = GIB;
    await expectAlert("disk_low", "recovered");
  });

  test("when a provider fails calls that are a minute apart, and when it serves again", async () => {
    const key = await createAccount();
    for (let count = 0; count < 5; count++) await call(key, "x [[sim: status=500]]");
    for (let minute = 0; minute < 6; minute++) {
      now += MINUTE_MS;
      await nextCheck();
      await call(key, "x [[sim: status=500]]");
    }
    const alert = await expectAlert("provider_down", "problem");
    expect(alert?.data.message).toContain("sim gateway echo");
    now += 31 * SECOND_MS;
    expect(await call(key, "hello")).toBe(200);
    await expectAlert("provider_down", "recovered");
  });

  test("not when failures end within three minutes", async () => {
    const before = alerts.length;
    const key = await createAccount();
    for (let count = 0; count < 5; count++) await call(key, "x [[sim: status=500]]");
    for (let minute = 0; minute < 8; minute++) {
      await nextCheck();
      now += MINUTE_MS;
    }
    await nextCheck();
    expect(alerts.slice(before).filter(({ type }) => type === "operator.provider_down")).toEqual(
      [],
    );
  });

  test("when the day's starting credit is used up, and when it is available again", async () => {
    for (let count = 0; count < 4; count++) await createAccount();
    await expectAlert("grant_budget_used_up", "problem");
    now += DAY_MS;
    await expectAlert("grant_budget_used_up", "recovered");
  });

  test("when the prices are old", async () => {
    now += 60 * DAY_MS;
    const alert = await expectAlert("prices_old", "problem");
    expect(alert?.data.message).toContain("POSTERN_PRICES_FILE");
  });

  test("when verify-ledger finds a difference while the gateway runs", async () => {
    await gateway.server.db.write((tx) =>
      tx.run("insert into account (id, created_at, created_from) values ('acct_x', 1, 'x')"),
    );
    const { dataDir } = gateway.config.store;
    const env = { ...settings, POSTERN_DATA_DIR: dataDir };
    const result = await runInProcess(["admin", "verify-ledger", "--alert"], env);
    expect([result.code, result.stderr]).toEqual([1, expect.stringContaining("difference")]);
    await expectAlert("ledger_problem", "problem");
  });
});
