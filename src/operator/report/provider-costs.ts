// What calls cost at each provider, from the usage records: the expected amount of the provider's bill.

import { type Nano, nanoFromPico, toNano } from "../../base/money.ts";
import { maxId } from "../../base/pagination.ts";
import { type Reader, type Row, text, integer } from "../../store/db.ts";
import type { UsageRecord } from "../../usage/usage.ts";

/** `to` is exclusive. */
export interface Period {
  readonly from: number;
  readonly to: number;
}

/** A range of account ids; `after` is exclusive, `upTo` inclusive. */
export interface AccountRange {
  readonly after: string;
  readonly upTo: string;
}

export interface ProviderCost {
  readonly provider: string;
  readonly model: string;
  readonly calls: number;
  /** Calls without usage data from the provider, whose usage was estimated. */
  readonly estimated: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cost: Nano;
}

interface CostQuery {
  readonly range: AccountRange;
  readonly period: Period;
}

const IN_RANGE = "account_id > ? and account_id <= ? and created_at >= ? and created_at < ?";
const RECORDS_PER_BATCH = 1_000;
const PICO_DIGITS = 12;

export async function addProviderCosts(
  reader: Reader,
  { range, period }: CostQuery,
  costs: Map<string, ProviderCost>,
): Promise<void> {
  const rows = await reader.all(
    `select provider, model, count(*) as calls, count(*) - cast(sum(exact) as bigint) as estimated,
       cast(sum(input_tokens) as bigint) as input_tokens, cast(sum(output_tokens) as bigint) as output_tokens,
       cast(sum(cost_nano) as text) as cost
     from usage_record where ${IN_RANGE} and byok = 0 group by provider, model`,
    [range.after, range.upTo, period.from, period.to],
  );
  for (const row of rows)
    addCost(costs, {
      provider: text(row, "provider"),
      model: text(row, "model"),
      calls: integer(row, "calls"),
      estimated: integer(row, "estimated"),
      inputTokens: integer(row, "input_tokens"),
      outputTokens: integer(row, "output_tokens"),
      cost: toNano(row["cost"]),
    });
}

/** Calls with a caller's own provider key have no cost; their list price is in the record's price lines. */
export async function addOwnKeyCosts(
  reader: Reader,
  { range, period }: CostQuery,
  costs: Map<string, ProviderCost>,
): Promise<void> {
  let [accountId, id] = [range.after, maxId("req")];
  for (;;) {
    const rows = await reader.all(
      `select account_id, id, provider, model, exact, input_tokens, output_tokens, detail from usage_record
       where (account_id, id) > (?, ?) and account_id <= ? and created_at >= ? and created_at < ? and byok = 1
       order by account_id, id limit ${RECORDS_PER_BATCH}`,
      [accountId, id, range.upTo, period.from, period.to],
    );
    for (const row of rows) addCost(costs, toOwnKeyCost(row));
    const last = rows.at(-1);
    if (last === undefined || rows.length < RECORDS_PER_BATCH) return;
    [accountId, id] = [text(last, "account_id"), text(last, "id")];
  }
}

function toOwnKeyCost(row: Row): ProviderCost {
  // Safe because only src/usage writes this column.
  const { price } = JSON.parse(text(row, "detail")) as Pick<UsageRecord, "price">;
  const pico = price.reduce(
    (sum, { count, usd }) => sum + BigInt(Math.ceil(count)) * picoFromUsd(usd),
    0n,
  );
  return {
    provider: text(row, "provider"),
    model: text(row, "model"),
    calls: 1,
    estimated: integer(row, "exact") === 1 ? 0 : 1,
    inputTokens: integer(row, "input_tokens"),
    outputTokens: integer(row, "output_tokens"),
    cost: nanoFromPico(pico),
  };
}

/** Prices in records have at most twelve decimals. */
function picoFromUsd(usd: string): bigint {
  const [units = "0", fraction = ""] = usd.split(".");
  return BigInt(units + fraction.padEnd(PICO_DIGITS, "0"));
}

function addCost(costs: Map<string, ProviderCost>, cost: ProviderCost): void {
  const key = `${cost.provider} ${cost.model}`;
  const total = costs.get(key);
  costs.set(key, {
    ...cost,
    calls: cost.calls + (total?.calls ?? 0),
    estimated: cost.estimated + (total?.estimated ?? 0),
    inputTokens: cost.inputTokens + (total?.inputTokens ?? 0),
    outputTokens: cost.outputTokens + (total?.outputTokens ?? 0),
    cost: cost.cost + (total?.cost ?? 0n),
  });
}
