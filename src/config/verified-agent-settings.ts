// Settings of agents that sign their requests (Web Bot Auth).

import { z } from "zod";
import { STARTING_CREDIT } from "../accounts/accounts.ts";
import { type Nano, nanoFromUsd } from "../base/money/money.ts";
import { commaSeparated, settings } from "./setting-schemas.ts";

export interface VerifiedAgentConfig {
  readonly url: string;
  readonly accountsPerHour: number;
  readonly startingCredit: Nano;
}

const ACCOUNTS_DEFAULT = 100;
const AGENT = /^(https?:\/\/[^\s;/?#@]+)\/?(?:;(\d{1,6})(?:;([\d.]{1,10}))?)?$/;

export const VERIFIED_AGENT_SETTINGS = settings({
  POSTERN_VERIFIED_AGENTS: [
    z
      .string()
      .default("")
      .transform((list, context) =>
        commaSeparated(list).flatMap((entry) => {
          const agent = parseAgent(entry);
          if (agent !== undefined) return [agent];
          context.addIssue({
            code: "custom",
            message: `must be origins such as https://chatgpt.com, with accounts per hour and starting credit as in https://chatgpt.com;100;0.25, separated by commas, not ${entry}`,
          });
          return [];
        }),
      ),
    "",
    "Operators whose agents sign their requests, separated by commas, each as `origin;accounts per hour;starting credit in US dollars`, such as `https://chatgpt.com;100;0.25`. See `docs/site/verified-agents.md`.",
  ],
});

/** Plain http and hosts of the own network are for tests on the own machine. */
export function verifiedAgentErrors({
  verifiedAgents,
  development,
}: {
  readonly verifiedAgents: readonly VerifiedAgentConfig[];
  readonly development: boolean;
}): readonly string[] {
  return verifiedAgents.flatMap(({ url }) =>
    development || /^https:\/\/[^:]*\.[a-z][^:]*(:8?443)?$/i.test(url)
      ? []
      : [`POSTERN_VERIFIED_AGENTS must list https:// origins with a public host name, not ${url}`],
  );
}

function parseAgent(entry: string): VerifiedAgentConfig | undefined {
  const [, url, accounts, usd] = AGENT.exec(entry) ?? [];
  const startingCredit = usd === undefined ? STARTING_CREDIT : nanoFromUsd(usd);
  if (url === undefined || startingCredit === undefined) return undefined;
  return { url, accountsPerHour: Number(accounts ?? ACCOUNTS_DEFAULT), startingCredit };
}
