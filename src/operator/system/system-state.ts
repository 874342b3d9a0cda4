// The state of this process, as the system page and the grants page show it.

import type { JobRun } from "../../base/job-run.ts";
import type { Nano } from "../../base/money/money.ts";

export interface SystemState {
  /** Names and values, without secrets. */
  readonly settings: readonly (readonly [name: string, value: string])[];
  readonly jobRuns: ReadonlyMap<string, JobRun>;
  /** Models at providers that the gateway has an account for. */
  readonly callableModels: () => readonly { readonly provider: string; readonly id: string }[];
  /** The gateway's keys at a provider. */
  readonly keysAt: (provider: string) => readonly ProviderKeyState[];
  /** Starting credit for new accounts per UTC day; zero for no limit. */
  readonly grantPerDay: Nano;
  /** The operators whose agents may sign the creation of accounts. */
  readonly verifiedAgents: readonly ListedOperator[];
}

export interface ProviderKeyState {
  readonly name: string;
  readonly weight: number;
  readonly isFromSettings: boolean;
}

export interface ListedOperator {
  readonly url: string;
  /** Zero for no limit. */
  readonly accountsPerHour: number;
  readonly startingCredit: Nano;
}
