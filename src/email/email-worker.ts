// Queues the emails of new events and sends them by SMTP, at least once each: a crash after the server accepted a message sends it again with the
// same Message-ID. An email that is not accepted within a day fails, because it is out of date by then.

import { hasEventsToEmail, takeEventToEmail } from "../activity/events.ts";
import { newId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../base/time.ts";
import { clampDueTimes } from "../store/clamp-due.ts";
import type { Db, Tx } from "../store/db.ts";
import { type EmailLinks, emailMessage } from "./email-message.ts";
import {
  EMAIL_DUE_TABLE,
  type EmailOutcome,
  hasDueEmail,
  leaseEmail,
  type LeasedEmail,
  queueEmails,
  recordEmailAttempt,
  sweepEmails,
} from "./emails.ts";
import type { SendEmail } from "./smtp.ts";

const BATCH_MAX = 20;
/** Events whose emails one run queues. */
const EVENTS_BATCH_MAX = 100;
const LIFETIME_MS = DAY_MS;
/** After the first, second … failed attempt; the last one repeats until the email is too old. */
const RETRY_DELAYS_MS = [MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS] as const;
const ERROR_LENGTH_MAX = 300;

export interface EmailWorkerDeps {
  readonly db: Db;
  readonly log: Log;
  readonly now: () => number;
  readonly links: EmailLinks;
  /** Undefined where no SMTP server is set: emails are queued and expire. */
  readonly send: SendEmail | undefined;
}

export interface EmailWorker {
  /** Queues the emails of new events and sends what is due, one email after the other. */
  readonly tick: () => Promise<void>;
  readonly sweep: () => Promise<void>;
}

export function createEmailWorker(deps: EmailWorkerDeps): EmailWorker {
  const { db, now, send } = deps;
  /** The accounts of the last event and of the last email: accounts take turns. */
  let [afterEvent, after] = ["", ""];
  const queueNewEmails = async (tx: Tx): Promise<void> => {
    for (let queued = 0; queued < EVENTS_BATCH_MAX; queued++) {
      const event =
        (await takeEventToEmail(tx, { after: afterEvent, now: now() })) ??
        (await takeEventToEmail(tx, { after: "", now: now() }));
      afterEvent = event?.accountId ?? "";
      if (event === undefined) return;
      await queueEmails(tx, event);
    }
  };
  const leaseNext = async (): Promise<LeasedEmail | undefined> => {
    if (!(await hasDueEmail(db, now()))) return undefined;
    const lease = newId("eml", now());
    const email =
      (await db.write((tx) => leaseEmail(tx, { now: now(), after, lease }))) ??
      (await db.write((tx) => leaseEmail(tx, { now: now(), after: "", lease })));
    after = email?.accountId ?? "";
    return email;
  };
  return {
    tick: async () => {
      if (await hasEventsToEmail(db)) await db.write(queueNewEmails);
      if (send === undefined) return;
      for (let sent = 0; sent < BATCH_MAX; sent++) {
        const email = await leaseNext();
        if (email === undefined) return;
        const outcome = await attempt(email, send, deps);
        await db.write((tx) => recordEmailAttempt(tx, email, outcome));
      }
    },
    sweep: async () => {
      await clampDueTimes(db, EMAIL_DUE_TABLE, now());
      await db.write((tx) => sweepEmails(tx, now()));
    },
  };
}

async function attempt(
  email: LeasedEmail,
  send: SendEmail,
  { log, now, links }: EmailWorkerDeps,
): Promise<EmailOutcome> {
  const at = now();
  if (at - email.createdAt > LIFETIME_MS) return failure(at, "not sent within a day");
  const message = { id: email.id, to: email.address, ...emailMessage(email, links) };
  const result = await send(message);
  if (result.isSent) return { status: "sent", dueAt: at, error: null, now: now() };
  const error = result.error.slice(0, ERROR_LENGTH_MAX);
  log.warn("failed to send an email", { email: email.id, type: email.type, detail: error });
  if (result.isPermanent) return failure(now(), error);
  const delay = RETRY_DELAYS_MS[email.tries - 1] ?? RETRY_DELAYS_MS.at(-1) ?? HOUR_MS;
  return { status: "pending", dueAt: now() + delay, error, now: now() };
}

function failure(now: number, error: string): EmailOutcome {
  return { status: "failed", dueAt: now, error, now };
}
