// Operator alerts: each condition raises its alert on the webhook and by email, and the alert is resolved when the condition ends.

import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { createLog } from "../../src/base/log.ts";
import { DAY_MS, MINUTE_MS, utcDay } from "../../src/base/time.ts";
import { readConfig } from "../../src/config/config.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import { PRICE_TABLE } from "../../src/models/list-prices.ts";
import { createLiveCatalog } from "../../src/models/live-catalog.ts";
import { createOperatorAlerts } from "../../src/server/operator-alerts.ts";
import { startSmtpReceiver } from "../email/smtp-receiver.ts";
import { skipUnless } from "../support/skip.ts";

/** Its free space is always 0. */
const FULL_FOLDER = "/proc";
const START = Date.parse(PRICE_TABLE.checked);

const posted: { readonly type: string; readonly data: Readonly<Record<string, unknown>> }[] = [];
const smtp = await startSmtpReceiver();
const webhook = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: async (request) => {
    posted.push((await request.json()) as (typeof posted)[number]);
    return new Response();
  },
});
afterAll(async () => {
  await webhook.stop(true);
  await smtp.stop();
});

/** What the checks look at. */
const state = {
  now: START,
  circuits: [] as string[],
  ledgerProblem: undefined as string | undefined,
  refusedPayments: undefined as string | undefined,
  grantsUsedUpOn: undefined as string | undefined,
};
beforeEach(() => {
  Object.assign(state, {
    now: START,
    circuits: [],
    ledgerProblem: undefined,
    refusedPayments: undefined,
    grantsUsedUpOn: undefined,
  });
});

function startAlerts(dataDir = "data") {
  const result = readConfig({
    env: {
      POSTERN_DATA_DIR: dataDir,
      POSTERN_ALERT_WEBHOOK_URL: `http://127.0.0.1:${webhook.port}/`,
      POSTERN_ALERT_WEBHOOK_SECRET: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
      POSTERN_ALERT_EMAIL: "ops@example.com",
      POSTERN_SMTP_URL: smtp.url,
      POSTERN_EMAIL_FROM: "Postern <postern@example.com>",
    },
    hostName: "test",
    providers: PROVIDERS,
  });
  if (!result.ok) throw new Error(result.errors.join("\n"));
  const alerts = createOperatorAlerts(result.config, {
    openCircuits: () => state.circuits,
    ledgerProblem: () => state.ledgerProblem,
    findRefusedPayments: async () => state.refusedPayments,
    isGrantBudgetUsedUp: async (at) => state.grantsUsedUpOn === utcDay(at),
    catalog: createLiveCatalog({ now: START }),
    log: createLog({ level: "error", isPretty: false, now: () => state.now, write: () => {} }),
    now: () => state.now,
  });
  /** The alerts of one run, as the webhook and the emails have them. */
  const runAt = async (now: number) => {
    state.now = now;
    const emailsBefore = smtp.received.length;
    await alerts.run?.();
    const sent = posted.splice(0).map(({ type, data }) => `${type} ${String(data["status"])}`);
    const subjects = smtp.received.slice(emailsBefore).map(({ to, subject }) => {
      expect(to).toEqual(["ops@example.com"]);
      return subject.replace("[Postern] ", "operator.");
    });
    expect(subjects.toSorted()).toEqual(sent.toSorted());
    return sent;
  };
  return { runAt };
}

describe("the operator is told", () => {
  test("of open circuits after five minutes, and when they are closed", async () => {
    const { runAt } = startAlerts();
    expect(await runAt(START)).toEqual([]);
    state.circuits = ["openai/gpt-5 at openai"];
    expect(await runAt(START + MINUTE_MS)).toEqual([]);
    expect(await runAt(START + 6 * MINUTE_MS)).toEqual(["operator.provider_down problem"]);
    state.circuits = [];
    expect(await runAt(START + 7 * MINUTE_MS)).toEqual(["operator.provider_down recovered"]);
  });

  test("of differences in the ledger at once", async () => {
    const { runAt } = startAlerts();
    state.ledgerProblem = "The ledger has 1 difference.";
    expect(await runAt(START)).toEqual(["operator.ledger_problem problem"]);
    state.ledgerProblem = undefined;
    expect(await runAt(START + MINUTE_MS)).toEqual(["operator.ledger_problem recovered"]);
  });

  test("of automatic top-ups that the payment processor refuses", async () => {
    const { runAt } = startAlerts();
    state.refusedPayments = "The payment processor refused 2 automatic top-ups.";
    expect(await runAt(START)).toEqual(["operator.payments_refused problem"]);
    state.refusedPayments = undefined;
    expect(await runAt(START + MINUTE_MS)).toEqual(["operator.payments_refused recovered"]);
  });

  test("that the day's starting credit is used up, until midnight UTC", async () => {
    const { runAt } = startAlerts();
    state.grantsUsedUpOn = utcDay(START);
    expect(await runAt(START)).toEqual(["operator.grant_budget_used_up problem"]);
    expect(await runAt(START + DAY_MS - 1)).toEqual([]);
    expect(await runAt(START + DAY_MS)).toEqual(["operator.grant_budget_used_up recovered"]);
  });

  test("again of what lasts after a restart", async () => {
    state.circuits = ["openai/gpt-5 at openai"];
    state.ledgerProblem = "The ledger has 1 difference.";
    state.refusedPayments = "The payment processor refused 2 automatic top-ups.";
    state.grantsUsedUpOn = utcDay(START);
    const reported = [
      "operator.ledger_problem problem",
      "operator.payments_refused problem",
      "operator.grant_budget_used_up problem",
    ];
    for (let restart = 0; restart < 2; restart++) {
      const { runAt } = startAlerts();
      expect(await runAt(START)).toEqual(reported);
      expect(await runAt(START + 6 * MINUTE_MS)).toEqual(["operator.provider_down problem"]);
    }
  });

  test("of prices that were checked more than 30 days ago", async () => {
    const { runAt } = startAlerts();
    expect(await runAt(START + 20 * DAY_MS)).toEqual([]);
    expect(await runAt(START + 40 * DAY_MS)).toEqual(["operator.prices_old problem"]);
  });

  test.skipIf(skipUnless(process.platform === "linux", "only Linux has a full /proc"))(
    "of a disk with less than 1 GiB",
    async () => {
      expect(await startAlerts(FULL_FOLDER).runAt(START)).toEqual(["operator.disk_low problem"]);
    },
  );
});
