// Service levels: what the operator promises about models, and what a breach is worth. It owns the table service_level. A level is
// never changed: it covers every window that begins while it is on, so a change cannot alter a window that has begun.

import { recordAuditEntry } from "../activity/audit.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { type Nano, toNano, usdText } from "../base/money/money.ts";
import { formatInteger, formatUsdExact } from "../base/text/format.ts";
import { DAY_MS, HOUR_MS, SECOND_MS } from "../base/time.ts";
import type { OperatorAct } from "../controls/blocks.ts";
import {
  enumValue,
  integer,
  integerOrNull,
  lockByName,
  type Reader,
  type Row,
  text,
  type Tx,
} from "../store/db.ts";

export const METRICS = [
  "availability",
  "first_token_p95",
  "first_token_p99",
  "slow_first_token",
  "broken_reply",
] as const;
export type Metric = (typeof METRICS)[number];

export const PERIODS = ["hour", "day", "month"] as const;
export type Period = (typeof PERIODS)[number];

/** Each model is measured separately. */
export const EVERY_MODEL = "*";
export const MILLIONTHS = 1_000_000;

const LEVELS_MAX = 200;
const FIRST_TOKEN_MAX_MS = 600 * SECOND_MS;

export interface LevelTerms {
  readonly model: string;
  readonly metric: Metric;
  /** Millionths for availability, else milliseconds; 0 for broken replies. */
  readonly target: number;
  readonly period: Period;
  readonly creditPercent: number;
  /** The most per account and UTC month. */
  readonly cap: Nano;
}

export interface ServiceLevel extends LevelTerms {
  readonly id: string;
  readonly startsAt: number;
  /** When it was turned off. The window that had begun is still covered. */
  readonly endedAt: number | null;
  readonly evaluatedTo: number;
}

/** In UTC; `end` is exclusive. */
export interface Window {
  readonly start: number;
  readonly end: number;
}

export function windowAt(period: Period, at: number): Window {
  const unitMs = period === "hour" ? HOUR_MS : DAY_MS;
  if (period !== "month") {
    const start = at - (at % unitMs);
    return { start, end: start + unitMs };
  }
  const date = new Date(at);
  const monthAt = (months: number): number =>
    Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months);
  return { start: monthAt(0), end: monthAt(1) };
}

/** The level applies from the next window on, so that customers know a promise before its window begins. */
export async function addServiceLevel(
  tx: Tx,
  act: OperatorAct,
  terms: LevelTerms,
): Promise<string> {
  checkTerms(terms);
  await lockByName(tx, "service_level");
  const levels = await listServiceLevels(tx);
  if (levels.length >= LEVELS_MAX)
    throw new Fault("conflict", "too many service levels", {
      message: `A gateway can have ${LEVELS_MAX} service levels, including those that ended.`,
    });
  if (levels.some((level) => level.endedAt === null && isSame(level, terms)))
    throw new Fault("conflict", "the same service level is on", {
      message: "This service level is on already. Turn it off first to change its credit.",
    });
  const id = newId("slv", act.now);
  const startsAt = windowAt(terms.period, act.now).end;
  await tx.run(
    `insert into service_level (id, model, metric, target, period, credit_percent, cap_nano, starts_at, evaluated_to)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      id,
      terms.model,
      terms.metric,
      terms.target,
      terms.period,
      terms.creditPercent,
      terms.cap,
      startsAt,
      startsAt,
    ],
  );
  await auditLevel(tx, act, "service_level.added", { id, ...terms });
  return id;
}

/** Does nothing if it has ended. */
export async function endServiceLevel(tx: Tx, act: OperatorAct, id: string): Promise<void> {
  const level = await getServiceLevel(tx, id);
  const ended = await tx.run(
    "update service_level set ended_at = ? where id = ? and ended_at is null",
    [act.now, id],
  );
  if (ended === 1) await auditLevel(tx, act, "service_level.ended", level);
}

export async function getServiceLevel(reader: Reader, id: string): Promise<ServiceLevel> {
  const row = await reader.get("select * from service_level where id = ?", [id]);
  if (row !== undefined) return toServiceLevel(row);
  throw new Fault("not_found", `no service level ${id}`, {
    message: "This service level does not exist.",
  });
}

/** Newest first, also those that ended. */
export async function listServiceLevels(reader: Reader): Promise<readonly ServiceLevel[]> {
  const rows = await reader.all("select * from service_level order by id desc");
  return rows.map(toServiceLevel);
}

/** Whether some window is still covered, or will be. */
export function isInForce({ period, endedAt, startsAt }: ServiceLevel, now: number): boolean {
  return endedAt === null || (endedAt > startsAt && windowAt(period, endedAt).end > now);
}

export function checkTerms({ model, metric, target, creditPercent, cap }: LevelTerms): void {
  if (model !== EVERY_MODEL && !/^[\w.:@-]+(?:\/[\w.:@-]+)*$/.test(model))
    throw invalid("model", "Enter the id of a model such as openai/gpt-5.4-mini, or * for each.");
  const isShare = metric === "availability";
  const max = isShare ? MILLIONTHS : metric === "broken_reply" ? 0 : FIRST_TOKEN_MAX_MS;
  const min = metric === "broken_reply" ? 0 : 1;
  if (!Number.isInteger(target) || target < min || target > max)
    throw invalid(
      "target",
      isShare
        ? "The availability must be more than 0 and at most 100 percent, with four decimals at most."
        : `The time must be a whole number of milliseconds from 1 to ${FIRST_TOKEN_MAX_MS}.`,
    );
  if (!Number.isInteger(creditPercent) || creditPercent < 1 || creditPercent > 100)
    throw invalid("credit_percent", "The credit must be a whole percentage from 1 to 100.");
  if (cap <= 0n) throw invalid("cap_usd", "The cap must be more than $0.");
}

function isSame(one: LevelTerms, other: LevelTerms): boolean {
  return (
    one.model === other.model &&
    one.metric === other.metric &&
    one.target === other.target &&
    one.period === other.period
  );
}

/** The level as a sentence. */
export function levelText({ model, metric, target, period }: LevelTerms): string {
  const name = model === EVERY_MODEL ? "each model" : model;
  const time = `${formatInteger(target)} ms`;
  switch (metric) {
    case "availability":
      return `Availability of ${name} per ${period} is at least ${percentText(target)}.`;
    case "first_token_p95":
    case "first_token_p99":
      return `In each ${period}, ${metric === "first_token_p95" ? 95 : 99}% of the streams of ${name} begin within ${time}.`;
    case "slow_first_token":
      return `Every stream of ${name} begins within ${time}.`;
    case "broken_reply":
      return `No charged reply of ${model === EVERY_MODEL ? "any model" : model} breaks off.`;
  }
}

/** What a breach is worth. */
export function creditText({ metric, period, creditPercent, cap }: LevelTerms): string {
  const base =
    metric === "slow_first_token" || metric === "broken_reply"
      ? `what an account paid for those calls, summed per ${period}`
      : `what an account paid for the model in the ${period}`;
  return `${creditPercent}% of ${base}, at most ${formatUsdExact(cap)} a month`;
}

/** Writes millionths as a percentage: `99.95%`. */
export function percentText(millionths: number): string {
  return `${String(Math.round(millionths) / 10_000)}%`;
}

async function auditLevel(
  tx: Tx,
  { operator, network, now }: OperatorAct,
  action: "service_level.added" | "service_level.ended",
  { id, cap, creditPercent, ...terms }: LevelTerms & { readonly id: string },
): Promise<void> {
  const { model, metric, target, period } = terms;
  await recordAuditEntry(tx, {
    accountId: null,
    actor: { type: "operator", id: operator },
    action,
    target: id,
    detail: {
      model,
      metric,
      target,
      period,
      credit_percent: creditPercent,
      cap_usd: usdText(cap),
    },
    network,
    now,
  });
}

function toServiceLevel(row: Row): ServiceLevel {
  return {
    id: text(row, "id"),
    model: text(row, "model"),
    metric: enumValue(row, "metric", METRICS),
    target: integer(row, "target"),
    period: enumValue(row, "period", PERIODS),
    creditPercent: integer(row, "credit_percent"),
    cap: toNano(row["cap_nano"]),
    startsAt: integer(row, "starts_at"),
    endedAt: integerOrNull(row, "ended_at"),
    evaluatedTo: integer(row, "evaluated_to"),
  };
}
