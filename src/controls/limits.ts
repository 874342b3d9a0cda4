// Limits that operators change while the gateway runs. It owns the table operator_limit; without a row, the
// setting of the environment holds.

import { recordAuditEntry } from "../activity/audit.ts";
import { invalid } from "../base/fault.ts";
import { NANO_PER_USD, type Nano, nanoFromUsd, usdText } from "../base/money/money.ts";
import { type Reader, text, type Tx } from "../store/db.ts";
import type { OperatorAct } from "./blocks.ts";

/** 0: no limit. */
export interface OperatorLimits {
  readonly accountsPerHour: number;
  readonly grantPerDay: Nano;
  readonly claimsPerHour: number;
  readonly claimBonusPerDay: Nano;
  /** Per key. */
  readonly requestsPerMinute: number;
  readonly openCallsPerKey: number;
}

export type LimitName = keyof OperatorLimits;

interface LimitDoc {
  readonly label: string;
  readonly setting: string;
  readonly isUsd: boolean;
}

export const LIMITS: Readonly<Record<LimitName, LimitDoc>> = {
  accountsPerHour: {
    label: "New accounts per hour and network",
    setting: "POSTERN_ACCOUNTS_PER_HOUR",
    isUsd: false,
  },
  grantPerDay: {
    label: "Starting credit per day (USD)",
    setting: "POSTERN_GRANT_USD_PER_DAY",
    isUsd: true,
  },
  claimsPerHour: {
    label: "Claims per hour and account",
    setting: "POSTERN_CLAIMS_PER_HOUR",
    isUsd: false,
  },
  claimBonusPerDay: {
    label: "Claim bonus per day (USD)",
    setting: "POSTERN_CLAIM_BONUS_USD_PER_DAY",
    isUsd: true,
  },
  requestsPerMinute: {
    label: "Requests per minute and key",
    setting: "POSTERN_REQUESTS_PER_MINUTE",
    isUsd: false,
  },
  openCallsPerKey: {
    label: "Concurrent model calls per key",
    setting: "POSTERN_OPEN_CALLS_PER_KEY",
    isUsd: false,
  },
};

// Safe because these are the keys of the table.
export const LIMIT_NAMES = Object.keys(LIMITS) as LimitName[];

const COUNT_MAX = 1_000_000;
const USD_MAX = NANO_PER_USD * 1_000_000n;

export interface LiveLimits {
  readonly refresh: () => Promise<void>;
  readonly current: () => OperatorLimits;
  /** The limits that the environment sets. */
  readonly defaults: OperatorLimits;
}

export function createLiveLimits(reader: Reader, defaults: OperatorLimits): LiveLimits {
  let current = defaults;
  return {
    defaults,
    current: () => current,
    refresh: async () => {
      const rows = await reader.all("select name, value from operator_limit");
      const values = new Map(rows.map((row) => [text(row, "name"), text(row, "value")]));
      const count = (name: LimitName, byDefault: number): number =>
        Number(values.get(name) ?? byDefault);
      const amount = (name: LimitName, byDefault: Nano): Nano =>
        nanoFromUsd(values.get(name) ?? "") ?? byDefault;
      current = {
        accountsPerHour: count("accountsPerHour", defaults.accountsPerHour),
        grantPerDay: amount("grantPerDay", defaults.grantPerDay),
        claimsPerHour: count("claimsPerHour", defaults.claimsPerHour),
        claimBonusPerDay: amount("claimBonusPerDay", defaults.claimBonusPerDay),
        requestsPerMinute: count("requestsPerMinute", defaults.requestsPerMinute),
        openCallsPerKey: count("openCallsPerKey", defaults.openCallsPerKey),
      };
    },
  };
}

/** An empty value restores the setting of the environment. */
export async function changeLimit(
  tx: Tx,
  { operator, network, now }: OperatorAct,
  { name, value: typed }: { readonly name: LimitName; readonly value: string },
): Promise<void> {
  const value = typed.trim() === "" ? null : parseLimit(name, typed.trim());
  if (value === null) await tx.run("delete from operator_limit where name = ?", [name]);
  else
    await tx.run(
      `insert into operator_limit (name, value) values (?, ?)
       on conflict (name) do update set value = excluded.value`,
      [name, value],
    );
  await recordAuditEntry(tx, {
    accountId: null,
    actor: { type: "operator", id: operator },
    action: "limit.changed",
    target: LIMITS[name].setting,
    detail: { value: value ?? "the setting" },
    network,
    now,
  });
}

function parseLimit(name: LimitName, typed: string): string {
  const { label, isUsd } = LIMITS[name];
  if (!isUsd) {
    if (/^\d{1,7}$/.test(typed) && Number(typed) <= COUNT_MAX) return String(Number(typed));
    throw invalid("value", `${label}: enter a whole number from 0 to 1,000,000; 0 for no limit.`);
  }
  const amount = nanoFromUsd(typed);
  if (amount !== undefined && amount >= 0n && amount <= USD_MAX) return usdText(amount);
  throw invalid("value", `${label}: enter US dollars from 0 to 1,000,000; 0 for no limit.`);
}
