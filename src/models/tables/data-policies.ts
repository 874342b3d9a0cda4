// What providers publish about the data of API calls, for an account without an agreement of its own. null is unknown, which
// counts as the worst: no provider that is missing here, and none with null, satisfies a rule about it.

import type { Sourced } from "../model-facts.ts";

export interface DataPolicyRow extends Sourced {
  readonly provider: string;
  /** The models; all if absent. The first row that matches applies. */
  readonly models?: RegExp;
  /** The most days that inputs and outputs are stored after the reply, also for abuse monitoring. 0: not at all. */
  readonly retentionDays: number | null;
  /** Whether inputs and outputs are used to train models. */
  readonly training: boolean | null;
  /** Where calls are processed, if the provider promises it. */
  readonly region: string | null;
}

const CHECKED_ON = "2026-11-28";

function row(
  provider: string,
  [retentionDays, training]: readonly [number | null, boolean | null],
  source: string,
  more: Partial<DataPolicyRow> = {},
): DataPolicyRow {
  return {
    provider,
    retentionDays,
    training,
    region: null,
    source,
    checked: CHECKED_ON,
    ...more,
  };
}

const BEDROCK = "https://docs.aws.amazon.com/bedrock/latest/userguide/data-retention.html";

export const DATA_POLICIES: readonly DataPolicyRow[] = [
  // Abuse monitoring logs, up to 30 days; longer if the law requires it.
  row("openai", [30, false], "https://developers.openai.com/api/docs/guides/your-data"),
  // The page states no number of days for the standard retention.
  row(
    "anthropic",
    [null, false],
    "https://platform.claude.com/docs/en/manage-claude/api-and-data-retention",
  ),
  // Of paid services: logged "for a limited period of time" for abuse monitoring.
  row("google", [null, false], "https://ai.google.dev/gemini-api/docs/zdr"),
  row(
    "vertex",
    [null, false],
    "https://docs.cloud.google.com/gemini-enterprise-agent-platform/resources/zero-data-retention",
  ),
  row("xai", [30, false], "https://docs.x.ai/docs/faq/security"),
  // Stored only to troubleshoot failures or investigate abuse, up to 30 days. The page does not mention training.
  row("groq", [30, null], "https://console.groq.com/docs/your-data"),
  // Prompts and generations of open models are never written to persistent storage.
  row(
    "fireworks",
    [0, false],
    "https://docs.fireworks.ai/guides/security_compliance/data_handling",
  ),
  // Inputs and outputs are not stored by default; sharing them for training is opt-in.
  row("together", [0, false], "https://docs.together.ai/docs/privacy-and-security"),
  // The retention of a model is that of its terms.
  row("bedrock", [30, null], BEDROCK, { models: /claude-fable-5|openai\.gpt-(?!oss)/ }),
  row("bedrock", [null, null], BEDROCK, { models: /^us\./, region: "us" }),
  row("bedrock", [null, null], BEDROCK, { models: /^eu\./, region: "eu" }),
  // In this process, which keeps nothing.
  row("sim", [0, false], "packages/simulator", { region: "local" }),
];
