// The services that the settings name: sign-in, Stripe, email and the alert webhook. `doctor` reports all findings, and the
// gateway logs the problems at its start.

import type { Stripe as StripeClient } from "stripe";
import type { Log } from "../../base/log.ts";
import { isAccessError } from "../../billing/stripe/stripe-facts.ts";
import { createStripeClient, type StripeSettings } from "../../billing/stripe/stripe.ts";
import type { Config } from "../../config/config.ts";
import type { EmailConfig } from "../../config/email-settings.ts";
import type { AlertConfig } from "../../config/operator-settings.ts";
import { verifySmtp } from "../../email/smtp.ts";
import { checkIdentity } from "../../people/identity-diagnostics.ts";
import type { Finding } from "./finding.ts";

export async function checkServices(config: Config): Promise<readonly Finding[]> {
  const findings = await Promise.all([
    checkSignIn(config),
    checkStripe(config.billing.stripe),
    checkEmail(config.email),
    checkAlerts(config.alerts),
  ]);
  return findings.flat();
}

/** Calls work without these services, so the gateway starts all the same. */
export async function logServiceProblems(config: Config, log: Log): Promise<void> {
  try {
    for (const { status, check, message, effect, hint } of await checkServices(config))
      if (status === "fail")
        log.error("a service of the settings cannot be used", {
          service: check,
          problem: message,
          effect,
          hint,
        });
  } catch (cause) {
    log.error("the services of the settings could not be checked", { cause });
  }
}

const SIGN_IN_EFFECTS = {
  warning: "Some people, or all, cannot sign in and claim the accounts of their agents.",
  error: "People cannot sign in, so no account can be claimed and the console cannot be used.",
} as const;
const STATUS_BY_LEVEL = { ok: "ok", warning: "warn", error: "fail" } as const;

async function checkSignIn({ baseUrl, identity }: Config): Promise<readonly Finding[]> {
  const findings = await checkIdentity({ baseUrl, identity });
  return findings.map(({ level, message }): Finding => {
    const finding = { status: STATUS_BY_LEVEL[level], check: "identity", message };
    return level === "ok" ? finding : Object.assign(finding, { effect: SIGN_IN_EFFECTS[level] });
  });
}

// `doctor` on email: whether the SMTP server accepts a connection, EHLO and the credentials. Nothing is sent.

/** No finding if emails are off. */
async function checkEmail(settings: EmailConfig | undefined): Promise<readonly Finding[]> {
  if (settings === undefined) return [];
  const { host } = new URL(settings.url.reveal());
  const problem = await verifySmtp(settings);
  if (problem === undefined)
    return [
      {
        status: "ok",
        check: "email",
        message: `${host} accepts the connection and the credentials`,
      },
    ];
  return [
    {
      status: "fail",
      check: "email",
      message: `${host} does not accept emails: ${problem}`,
      effect:
        "No receipts, alerts and reminders are sent; they are kept and tried again for some days.",
      hint: "Check host, port, user and password in POSTERN_SMTP_URL: smtp:// upgrades to TLS (usually port 587), smtps:// begins with it (465).",
    },
  ];
}

// `doctor` on the alert webhook: whether it can be reached. Nothing is posted, so that no alarm is raised.

const TIMEOUT_MS = 5_000;
const GONE_STATUSES: ReadonlySet<number> = new Set([404, 410]);

/** No finding if no alert webhook is set. */
async function checkAlerts({ webhook }: AlertConfig): Promise<readonly Finding[]> {
  if (webhook === undefined) return [];
  const { host } = new URL(webhook.url);
  const effect =
    "You are not told if a provider is down, the disk is full or the ledger has differences.";
  try {
    const response = await fetch(webhook.url, {
      method: "HEAD",
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!GONE_STATUSES.has(response.status))
      return [{ status: "ok", check: "alerts", message: `the alert webhook at ${host} responds` }];
    const message = `the alert webhook at ${host} answers ${response.status} to a HEAD request`;
    const hint =
      "Check the path of POSTERN_ALERT_WEBHOOK_URL; some receivers answer so to anything but a POST.";
    return [{ status: "warn", check: "alerts", message, effect, hint }];
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const message = `the alert webhook at ${host} cannot be reached: ${why}`;
    const hint = "Check POSTERN_ALERT_WEBHOOK_URL, and that this machine can reach it.";
    return [{ status: "fail", check: "alerts", message, effect, hint }];
  }
}

// `doctor` on Stripe: whether the secret key works, and whether it may read what payments need. Write permissions cannot be
// checked without writing.

const CHECK = "payments";
const ONE = { limit: 1 };

const READS: readonly (readonly [
  resource: string,
  read: (stripe: StripeClient) => Promise<unknown>,
])[] = [
  ["Checkout Sessions", (stripe) => stripe.checkout.sessions.list(ONE)],
  ["PaymentIntents", (stripe) => stripe.paymentIntents.list(ONE)],
  ["Customers", (stripe) => stripe.customers.list(ONE)],
  ["SetupIntents", (stripe) => stripe.setupIntents.list(ONE)],
  ["Refunds (Charges)", (stripe) => stripe.refunds.list(ONE)],
  ["Disputes", (stripe) => stripe.disputes.list(ONE)],
];

/** No finding if Stripe is off. */
async function checkStripe(settings: StripeSettings | undefined): Promise<readonly Finding[]> {
  if (settings === undefined) return [];
  const problems = await findStripeProblems(settings);
  if (problems.length > 0)
    return problems.map((message) => ({
      status: "fail",
      check: CHECK,
      message,
      effect: "Customers cannot buy credits, and auto top-up fails: accounts run out and get 402.",
    }));
  const webhook =
    settings.webhookSecret === undefined
      ? "; payments are found by polling, without a webhook"
      : "";
  return [{ status: "ok", check: CHECK, message: `Stripe accepts the secret key${webhook}` }];
}

/** Sentences about what is wrong; none if payments can work. */
async function findStripeProblems(settings: StripeSettings): Promise<readonly string[]> {
  const stripe = await createStripeClient({ ...settings, retriesMax: 0 });
  const problems = await Promise.all(
    READS.map(async ([resource, read]) => {
      try {
        await read(stripe);
        return [];
      } catch (error) {
        return [problemOf(resource, error)];
      }
    }),
  );
  const tax = settings.automaticTax ? await findTaxProblems(stripe) : [];
  return [...new Set([...problems.flat(), ...tax])];
}

async function findTaxProblems(stripe: StripeClient): Promise<readonly string[]> {
  try {
    const { status } = await stripe.tax.settings.retrieve();
    return status === "active"
      ? []
      : [
          `STRIPE_AUTOMATIC_TAX is true, but Stripe Tax is ${status}: every payment would be refused. Complete the tax settings in Stripe's dashboard.`,
        ];
  } catch (error) {
    // A restricted key without access to the tax settings can still calculate tax.
    return isAccessError(error) ? [] : [problemOf("tax settings", error)];
  }
}

function problemOf(resource: string, error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const status = error instanceof Error && "statusCode" in error ? error.statusCode : undefined;
  if (status === 401) return "Stripe does not accept STRIPE_SECRET_KEY.";
  if (status === 403)
    return `STRIPE_SECRET_KEY has no read access to ${resource}. Add it in Stripe's dashboard.`;
  return `Stripe did not answer a request for ${resource}: ${text}`;
}
