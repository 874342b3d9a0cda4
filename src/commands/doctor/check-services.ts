// The services that the settings name: sign-in, Stripe, email and the alert webhook. `doctor` reports all findings, and the
// gateway logs the problems at its start.

import type { Log } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import { checkIdentity } from "../../people/identity-diagnostics.ts";
import { checkAlerts } from "./check-alerts.ts";
import { checkEmail } from "./check-email.ts";
import { checkStripe } from "./check-stripe.ts";
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
