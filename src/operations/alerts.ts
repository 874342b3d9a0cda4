// Alerts for the operator: each check reports a problem or none; channels are notified when a problem begins, once a day while it
// lasts, and when it is over. The state is in memory, so a restarted process reports a lasting problem again.

import type { Log } from "../base/log.ts";
import { DAY_MS } from "../base/time.ts";

const REPEAT_AFTER_MS = DAY_MS;

type AlertName =
  | "provider_down"
  | "ledger_problem"
  | "disk_low"
  | "grant_budget_used_up"
  | "prices_old"
  | "payments_refused";

export interface AlertMessage {
  readonly alert: AlertName;
  readonly status: "problem" | "recovered";
  readonly message: string;
  /** When the problem was first seen. */
  readonly since: number;
  readonly at: number;
}

export interface AlertCheck {
  readonly alert: AlertName;
  /** A problem that is over sooner is not reported. */
  readonly lastsMs: number;
  /** Undefined without a problem. */
  readonly findProblem: (now: number) => Promise<string | undefined>;
}

/** Rejects if the message was not accepted. */
export type AlertChannel = (message: AlertMessage) => Promise<void>;

interface OpenProblem {
  readonly since: number;
  readonly message: string;
  /** Undefined until every channel accepted it. */
  readonly reportedAt: number | undefined;
}

export interface AlertDeps {
  readonly checks: readonly AlertCheck[];
  readonly channels: readonly AlertChannel[];
  readonly log: Log;
  readonly now: () => number;
}

/** Returns a job that runs every check once. */
export function createAlerts({ checks, channels, log, now }: AlertDeps): () => Promise<void> {
  const open = new Map<AlertName, OpenProblem>();
  const report = async (message: AlertMessage): Promise<boolean> => {
    const results = await Promise.allSettled(channels.map((send) => send(message)));
    for (const result of results)
      if (result.status === "rejected")
        log.error("operator alert was not sent", { alert: message.alert, cause: result.reason });
    return results.some(({ status }) => status === "fulfilled");
  };
  const runCheck = async ({ alert, lastsMs, findProblem }: AlertCheck): Promise<void> => {
    const at = now();
    const found = await findProblem(at);
    const earlier = open.get(alert);
    if (found === undefined) {
      if (earlier === undefined) return;
      const { since, message, reportedAt } = earlier;
      if (
        reportedAt === undefined ||
        (await report({ alert, status: "recovered", message, since, at }))
      )
        open.delete(alert);
      return;
    }
    const since = earlier?.since ?? at;
    const problem = { since, message: found, reportedAt: earlier?.reportedAt };
    open.set(alert, problem);
    const isReported =
      problem.reportedAt !== undefined && at - problem.reportedAt < REPEAT_AFTER_MS;
    if (at - since < lastsMs || isReported) return;
    if (await report({ alert, status: "problem", message: found, since, at }))
      open.set(alert, { ...problem, reportedAt: at });
  };
  return async () => {
    for (const check of checks)
      await runCheck(check).catch((error: unknown) =>
        log.error("operator check failed", { alert: check.alert, cause: error }),
      );
  };
}
