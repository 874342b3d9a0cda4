// What each agent of a session used. It owns the table session_usage, which is written with the usage records, so that a
// session is shown without reading all of its records.

import { type Nano, toNano } from "../base/money/money.ts";
import { integer, type Reader, type Row, text, type Tx } from "../store/db.ts";
import { labelValue } from "./session-labels.ts";
import type { UsageRecord } from "./usage.ts";

/** The agents of a session that are read; those that cost most come first. */
const AGENTS_MAX = 1_000;

interface AgentKey {
  readonly accountId: string;
  readonly sessionId: string;
  /** Empty for the main agent. */
  readonly agent: string;
}

export interface AgentUsage extends AgentKey {
  /** Empty if the main agent started it. */
  readonly parentAgent: string;
  readonly calls: number;
  readonly errors: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cost: Nano;
  readonly firstAt: number;
  readonly lastAt: number;
}

/** Runs under the locks of the accounts' wallets, like all writes of usage records. */
export async function addSessionUsage(tx: Tx, records: readonly UsageRecord[]): Promise<void> {
  const sums = new Map<string, AgentUsage>();
  for (const record of records) {
    const sessionId = labelValue(record.labels, "session");
    if (sessionId === undefined) continue;
    const agent = labelValue(record.labels, "agent") ?? "";
    const key = `${record.accountId} ${sessionId} ${agent}`;
    sums.set(key, plus(sums.get(key), record, { sessionId, agent }));
  }
  // In the order of their keys, as the rows of other tables.
  const sorted = [...sums].sort(([one], [other]) => (one < other ? -1 : 1));
  await Promise.all(
    sorted.map(([, sum]) =>
      tx.run(UPSERT, [
        sum.accountId,
        sum.sessionId,
        sum.agent,
        sum.parentAgent,
        sum.calls,
        sum.errors,
        sum.inputTokens,
        sum.outputTokens,
        sum.cost,
        sum.firstAt,
        sum.lastAt,
      ]),
    ),
  );
}

const UPSERT = `insert into session_usage
    (account_id, session_id, agent, parent_agent, calls, errors, input_tokens, output_tokens, cost_nano, first_at, last_at)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (account_id, session_id, agent) do update set
    parent_agent = case when excluded.parent_agent = '' then session_usage.parent_agent else excluded.parent_agent end,
    calls = session_usage.calls + excluded.calls, errors = session_usage.errors + excluded.errors,
    input_tokens = session_usage.input_tokens + excluded.input_tokens,
    output_tokens = session_usage.output_tokens + excluded.output_tokens,
    cost_nano = session_usage.cost_nano + excluded.cost_nano,
    first_at = case when excluded.first_at < session_usage.first_at then excluded.first_at else session_usage.first_at end,
    last_at = case when excluded.last_at > session_usage.last_at then excluded.last_at else session_usage.last_at end`;

function plus(
  sum: AgentUsage | undefined,
  record: UsageRecord,
  { sessionId, agent }: Pick<AgentKey, "sessionId" | "agent">,
): AgentUsage {
  const { accountId, outcome, inputTokens, outputTokens, cost, createdAt } = record;
  const parentAgent = labelValue(record.labels, "parent_agent") ?? "";
  const isError = outcome !== "completed" && outcome !== "client_aborted";
  const call = {
    accountId,
    sessionId,
    agent,
    parentAgent,
    calls: 1,
    errors: Number(isError),
    inputTokens,
    outputTokens,
    cost,
    firstAt: createdAt,
    lastAt: createdAt,
  };
  if (sum === undefined) return call;
  return {
    ...call,
    parentAgent: parentAgent || sum.parentAgent,
    calls: sum.calls + 1,
    errors: sum.errors + call.errors,
    inputTokens: sum.inputTokens + inputTokens,
    outputTokens: sum.outputTokens + outputTokens,
    cost: sum.cost + cost,
    firstAt: Math.min(sum.firstAt, createdAt),
    lastAt: Math.max(sum.lastAt, createdAt),
  };
}

/** The agents of a session by cost, the highest first. */
export async function listAgents(
  reader: Reader,
  accountId: string,
  sessionId: string,
): Promise<readonly AgentUsage[]> {
  const rows = await reader.all(
    `select * from session_usage where account_id = ? and session_id = ? order by cost_nano desc, agent limit ${AGENTS_MAX}`,
    [accountId, sessionId],
  );
  return rows.map(toAgentUsage);
}

function toAgentUsage(row: Row): AgentUsage {
  return {
    accountId: text(row, "account_id"),
    sessionId: text(row, "session_id"),
    agent: text(row, "agent"),
    parentAgent: text(row, "parent_agent"),
    calls: integer(row, "calls"),
    errors: integer(row, "errors"),
    inputTokens: integer(row, "input_tokens"),
    outputTokens: integer(row, "output_tokens"),
    cost: toNano(row["cost_nano"]),
    firstAt: integer(row, "first_at"),
    lastAt: integer(row, "last_at"),
  };
}

export interface SessionTotals {
  readonly agents: number;
  readonly calls: number;
  readonly errors: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

const NO_CALLS: SessionTotals = { agents: 0, calls: 0, errors: 0, inputTokens: 0, outputTokens: 0 };

/** By the id of the session. */
export async function readSessionTotals(
  reader: Reader,
  accountId: string,
  sessionIds: readonly string[],
): Promise<(sessionId: string) => SessionTotals> {
  if (sessionIds.length === 0) return () => NO_CALLS;
  const rows = await reader.all(
    `select session_id, count(*) as agents, cast(sum(calls) as bigint) as calls, cast(sum(errors) as bigint) as errors,
       cast(sum(input_tokens) as bigint) as input_tokens, cast(sum(output_tokens) as bigint) as output_tokens
     from session_usage where account_id = ? and session_id in (${sessionIds.map(() => "?").join(", ")}) group by session_id`,
    [accountId, ...sessionIds],
  );
  const totals = new Map(
    rows.map((row): [string, SessionTotals] => [
      text(row, "session_id"),
      {
        agents: integer(row, "agents"),
        calls: integer(row, "calls"),
        errors: integer(row, "errors"),
        inputTokens: integer(row, "input_tokens"),
        outputTokens: integer(row, "output_tokens"),
      },
    ]),
  );
  return (id) => totals.get(id) ?? NO_CALLS;
}

/** Deletes up to `limit` rows of agents without a call since; returns how many. */
export function deleteSessionUsage(tx: Tx, before: number, limit: number): Promise<number> {
  return tx.run(
    `delete from session_usage where (account_id, session_id, agent) in
       (select account_id, session_id, agent from session_usage where last_at < ? limit ?)`,
    [before, limit],
  );
}
