// `doctor` on the alert webhook: whether it can be reached. Nothing is posted, so that no alarm is raised.

import type { AlertConfig } from "../../config/operator-settings.ts";
import type { Finding } from "./finding.ts";

const TIMEOUT_MS = 5_000;
const GONE_STATUSES: ReadonlySet<number> = new Set([404, 410]);

/** No finding if no alert webhook is set. */
export async function checkAlerts({ webhook }: AlertConfig): Promise<readonly Finding[]> {
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
