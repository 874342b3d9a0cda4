// The public record of a session of agents.

import { z } from "zod";
import { maxNano, usdNumber, usdText } from "../base/money/money.ts";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import type { AgentUsage } from "../usage/session-usage.ts";
import type { SessionDetails, SessionView } from "./agent-sessions.ts";

const SESSION_FIELDS = {
  id: z.string().meta({ description: "As the header of its calls named it." }),
  object: z.literal("session"),
  status: z.enum(["active", "stopped"]),
  created_at: z.string().meta({ description: "Its first call." }),
  last_call_at: z.string(),
  stopped_at: z.string().nullable(),
  key_id: z.string().meta({ description: "The key of its first call." }),
  limit_usd: z
    .number()
    .nullable()
    .meta({ description: "The limit of its spend, as its last call set it; null for none." }),
  spent_usd: z.number().meta({ description: "What its calls cost." }),
  held_usd: z.number().meta({ description: "Held by running calls." }),
  remaining_usd: z
    .number()
    .nullable()
    .meta({ description: "What new calls can hold; null without a limit." }),
  agents_count: z.int().meta({ description: "Its agents, including the main agent." }),
  calls: z.int(),
  errors: z.int().meta({
    description: "Calls that failed. Those that failed before their reply began cost nothing.",
  }),
  input_tokens: z.int(),
  output_tokens: z.int(),
};

export const SessionRecord = z.object(SESSION_FIELDS).meta({ id: "AgentSession" });

const AgentRecord = z
  .object({
    agent: z.string().nullable().meta({ description: "null for the main agent." }),
    parent_agent: z
      .string()
      .nullable()
      .meta({ description: "The agent that started it; null for the main agent." }),
    calls: z.int(),
    errors: z.int(),
    input_tokens: z.int(),
    output_tokens: z.int(),
    cost_usd: z.string().meta({ description: "Exact to a billionth of a dollar." }),
    first_call_at: z.string(),
    last_call_at: z.string(),
  })
  .meta({ id: "AgentSessionAgent" });

export const SessionDetailRecord = z
  .object({
    ...SESSION_FIELDS,
    agents: z
      .array(AgentRecord)
      .meta({ description: "Up to 1,000 agents, those that cost most first." }),
  })
  .meta({ id: "AgentSessionDetails" });

export const SESSION_EXAMPLE = {
  id: "nightly-42",
  object: "session",
  status: "active",
  created_at: "2026-11-21T09:31:00.000Z",
  last_call_at: "2026-11-21T09:40:12.000Z",
  stopped_at: null,
  key_id: "key_01kah5t3mq7d2c9w4e6r8t0yax",
  limit_usd: 5,
  spent_usd: 1.25,
  held_usd: 0.02,
  remaining_usd: 3.73,
  agents_count: 2,
  calls: 18,
  errors: 0,
  input_tokens: 412_000,
  output_tokens: 9_120,
};

export const SESSION_DETAIL_EXAMPLE = {
  ...SESSION_EXAMPLE,
  agents: [
    {
      agent: null,
      parent_agent: null,
      calls: 12,
      errors: 0,
      input_tokens: 300_000,
      output_tokens: 6_000,
      cost_usd: "0.95",
      first_call_at: "2026-11-21T09:31:00.000Z",
      last_call_at: "2026-11-21T09:40:12.000Z",
    },
    {
      agent: "reviewer",
      parent_agent: null,
      calls: 6,
      errors: 0,
      input_tokens: 112_000,
      output_tokens: 3_120,
      cost_usd: "0.3",
      first_call_at: "2026-11-21T09:33:00.000Z",
      last_call_at: "2026-11-21T09:38:41.000Z",
    },
  ],
};

export function toSessionRecord({
  id,
  session,
  totals,
}: SessionView): z.infer<typeof SessionRecord> {
  const { limit, spent, held, stoppedAt } = session;
  return {
    id,
    object: "session",
    status: stoppedAt === null ? "active" : "stopped",
    created_at: timestamp(session.createdAt),
    last_call_at: timestamp(session.lastCallAt),
    stopped_at: timestampOrNull(stoppedAt),
    key_id: session.keyId,
    limit_usd: limit === undefined ? null : usdNumber(limit),
    spent_usd: usdNumber(spent),
    held_usd: usdNumber(held),
    remaining_usd: limit === undefined ? null : usdNumber(maxNano(limit - spent - held, 0n)),
    agents_count: totals.agents,
    calls: totals.calls,
    errors: totals.errors,
    input_tokens: totals.inputTokens,
    output_tokens: totals.outputTokens,
  };
}

export function toSessionDetailRecord(
  details: SessionDetails,
): z.infer<typeof SessionDetailRecord> {
  return { ...toSessionRecord(details), agents: details.agents.map(toAgentRecord) };
}

function toAgentRecord(usage: AgentUsage): z.infer<typeof AgentRecord> {
  return {
    agent: usage.agent || null,
    parent_agent: usage.parentAgent || null,
    calls: usage.calls,
    errors: usage.errors,
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    cost_usd: usdText(usage.cost),
    first_call_at: timestamp(usage.firstAt),
    last_call_at: timestamp(usage.lastAt),
  };
}
