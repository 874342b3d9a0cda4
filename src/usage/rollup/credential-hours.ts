// The table credential_hour: calls, failed attempts and charges per hour of each key that the operator added to a provider in the
// models file. Those of the key in the settings are the rest of the provider's sums. Written by the roll-up job.

import { type Nano, toNano } from "../../base/money/money.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type Reader, type Row, text, textOrNull, type Tx } from "../../store/db.ts";
import { providerResult } from "../provider-failures.ts";
import type { UsageRecord } from "../usage.ts";

/** The operator's page shows the last day. */
const KEPT_DAYS = 8;

const UPSERT = `insert into credential_hour (at, provider, credential, calls, failures, cost_nano) values (?, ?, ?, ?, ?, ?)
  on conflict (at, provider, credential) do update set calls = credential_hour.calls + excluded.calls,
    failures = credential_hour.failures + excluded.failures, cost_nano = credential_hour.cost_nano + excluded.cost_nano`;

export interface CredentialFigures {
  readonly provider: string;
  readonly credential: string;
  readonly calls: number;
  readonly failures: number;
  readonly cost: Nano;
}

export interface CredentialHour extends CredentialFigures {
  readonly at: number;
}

type EncodedHour = readonly [
  at: number,
  provider: string,
  credential: string,
  calls: number,
  failures: number,
  cost: string,
];

/** The hours of the gateway's keys in the models file. */
export function credentialHoursOf(records: readonly UsageRecord[]): readonly CredentialHour[] {
  return records.flatMap(hoursOf);
}

/** The column of usage_pending; null if no key of the models file was used. */
export function encodeCredentialHours(added: readonly CredentialHour[]): string | null {
  const hours = sumHours(added);
  if (hours.length === 0) return null;
  const encoded = hours.map(({ at, provider, credential, calls, failures, cost }): EncodedHour => [
    at,
    provider,
    credential,
    calls,
    failures,
    String(cost),
  ]);
  return JSON.stringify(encoded);
}

function hoursOf({ attempts, createdAt, cost }: UsageRecord): readonly CredentialHour[] {
  const at = createdAt - (createdAt % HOUR_MS);
  return attempts.flatMap(({ provider, credential, status }, index): CredentialHour[] => {
    if (credential === undefined) return [];
    // The charge is that of the last attempt.
    const isLast = index === attempts.length - 1;
    const failures = providerResult(status) === "failure" ? 1 : 0;
    const calls = isLast ? 1 : 0;
    return [{ at, provider, credential, calls, failures, cost: isLast ? cost : 0n }];
  });
}

/** The hours in a row of usage_pending. */
export function pendingCredentialHours(row: Row): readonly CredentialHour[] {
  const hours = textOrNull(row, "credentials");
  if (hours === null) return [];
  // Safe because only `encodeCredentialHours` writes this column.
  return (JSON.parse(hours) as readonly EncodedHour[]).map(
    ([at, provider, credential, calls, failures, cost]) => ({
      at,
      provider,
      credential,
      calls,
      failures,
      cost: toNano(cost),
    }),
  );
}

export async function addToCredentialHours(
  tx: Tx,
  hours: readonly CredentialHour[],
): Promise<void> {
  for (const { at, provider, credential, calls, failures, cost } of sumHours(hours))
    await tx.run(UPSERT, [at, provider, credential, calls, failures, cost]);
}

/** One for each key and hour, sorted, so that two processes cannot deadlock. */
function sumHours(hours: readonly CredentialHour[]): readonly CredentialHour[] {
  const sums = new Map<string, CredentialHour>();
  for (const hour of hours) {
    const id = `${hour.at} ${hour.provider} ${hour.credential}`;
    const sum = sums.get(id);
    sums.set(id, sum === undefined ? hour : added(sum, hour));
  }
  return [...sums].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, hour]) => hour);
}

function added(sum: CredentialHour, hour: CredentialHour): CredentialHour {
  return {
    ...sum,
    calls: sum.calls + hour.calls,
    failures: sum.failures + hour.failures,
    cost: sum.cost + hour.cost,
  };
}

/** Sums of the hours that start in the period. */
export async function readCredentialFigures(
  reader: Reader,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<readonly CredentialFigures[]> {
  const rows = await reader.all(
    `select provider, credential, cast(sum(calls) as text) as calls, cast(sum(failures) as text) as failures,
     cast(sum(cost_nano) as text) as cost from credential_hour where at >= ? and at < ? group by provider, credential`,
    [from, to],
  );
  return rows.map((row) => ({
    provider: text(row, "provider"),
    credential: text(row, "credential"),
    calls: Number(row["calls"]),
    failures: Number(row["failures"]),
    cost: toNano(row["cost"]),
  }));
}

export async function sweepCredentialHours(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from credential_hour where at < ?", [now - KEPT_DAYS * DAY_MS]);
}
