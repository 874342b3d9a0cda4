// What calls cost at each provider, out of the usage records: what its bill should say.

import { type Nano, nanoFromPico, toNano } from "../base/money.ts";
import { afterEveryId } from "../base/page.ts";
import { type Reader, type Row, text, whole } from "../store/db.ts";
import type { UsageRecord } from "../usage/usage.ts";

/** From the first instant to before the last. */
export interface Period {
  readonly from: number;
  readonly to: number;
}

/** Accounts by their ids: above the first, up to the last. */
export interface AccountRange {
  readonly after: string;
  readonly upTo: string;
}

export interface ProviderCost {
  readonly provider: string;
  readonly model: string;
  readonly calls: number;
  /** Of these the provider gave no numbers, so that they were estimated. */
  readonly estimated: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cost: Nano;
}

interface Part {
  readonly range: AccountRange;
  readonly period: Period;
}

const WITHIN = "account_id > ? and account_id <= ? and created_at >= ? and created_at < ?";
const RECORDS_AT_ONCE = 1_000;
const PICO_DIGITS = 12;

export async function addProviderCosts(
  reader: Reader,
  { range, period }: Part,
  costs: Map<string, ProviderCost>,
): Promise<void> {
  const rows = await reader.all(
    `select provider, model, count(*) as calls, count(*) - cast(sum(exact) as bigint) as estimated,
       cast(sum(input_tokens) as bigint) as input_tokens, cast(sum(output_tokens) as bigint) as output_tokens,
       cast(sum(cost_nano) as text) as cost
     from usage_record where ${WITHIN} and byok = 0 group by provider, model`,
    [range.after, range.upTo, period.from, period.to],
  );
  for (const row of rows)
    add(costs, {
      provider: text(row, "provider"),
      model: text(row, "model"),
      calls: whole(row, "calls"),
      estimated: whole(row, "estimated"),
      inputTokens: whole(row, "input_tokens"),
      outputTokens: whole(row, "output_tokens"),
      cost: toNano(row["cost"]),
    });
}

/** The record of a call on the caller's own key costs nothing; what it would have cost is in its priced lines. */
export async function addOwnKeyCosts(
  reader: Reader,
  { range, period }: Part,
  costs: Map<string, ProviderCost>,
): Promise<void> {
  let [accountId, id] = [range.after, afterEveryId("req")];
  for (;;) {
    const rows = await reader.all(
      `select account_id, id, provider, model, exact, input_tokens, output_tokens, detail from usage_record
       where (account_id, id) > (?, ?) and account_id <= ? and created_at >= ? and created_at < ? and byok = 1
       order by account_id, id limit ${RECORDS_AT_ONCE}`,
      [accountId, id, range.upTo, period.from, period.to],
    );
    for (const row of rows) add(costs, toOwnKeyCost(row));
    const last = rows.at(-1);
    if (last === undefined || rows.length < RECORDS_AT_ONCE) return;
    [accountId, id] = [text(last, "account_id"), text(last, "id")];
  }
}

function toOwnKeyCost(row: Row): ProviderCost {
  // Safe because only the usage room writes this column.
  const { price } = JSON.parse(text(row, "detail")) as Pick<UsageRecord, "price">;
  const pico = price.reduce(
    (sum, { count, usd }) => sum + BigInt(Math.ceil(count)) * picoFromUsd(usd),
    0n,
  );
  return {
    provider: text(row, "provider"),
    model: text(row, "model"),
    calls: 1,
    estimated: whole(row, "exact") === 1 ? 0 : 1,
    inputTokens: whole(row, "input_tokens"),
    outputTokens: whole(row, "output_tokens"),
    cost: nanoFromPico(pico),
  };
}

/** A price as its record shows it has twelve decimals at most. */
function picoFromUsd(usd: string): bigint {
  const [units = "0", fraction = ""] = usd.split(".");
  return BigInt(units + fraction.padEnd(PICO_DIGITS, "0"));
}

function add(costs: Map<string, ProviderCost>, cost: ProviderCost): void {
  const key = `${cost.provider} ${cost.model}`;
  const known = costs.get(key);
  costs.set(key, {
    ...cost,
    calls: cost.calls + (known?.calls ?? 0),
    estimated: cost.estimated + (known?.estimated ?? 0),
    inputTokens: cost.inputTokens + (known?.inputTokens ?? 0),
    outputTokens: cost.outputTokens + (known?.outputTokens ?? 0),
    cost: cost.cost + (known?.cost ?? 0n),
  });
}
