// Options of a server in addition to its settings: dependencies that tests and commands replace.

import type { Log } from "../base/log.ts";
import type { ResolveTxt } from "../base/network/dns-txt.ts";
import type { OverloadGuard } from "../http/guards/overload.ts";
import type { Timeouts } from "../inference/lifecycle/timeouts.ts";
import type { FetchFile } from "../inference/media/fetch-file.ts";
import type { IdentitySettings } from "../people/sign-in.ts";
import type { RunCommand } from "./ledger-verification.ts";

export interface ServerOptions {
  readonly log: Log;
  readonly now: () => number;
  readonly version: string;
  /** Called when the process must stop, for instance because another process runs under its name. */
  readonly onFatal: (reason: string) => void;
  /** The identity provider where the settings name none: the bundled one of development. */
  readonly identity?: IdentitySettings | undefined;
  /** Absent in tests: the ledger is not verified. */
  readonly runCommand?: RunCommand;
  /** The predecessor under this name has ended, so its heartbeat is not watched. */
  readonly isRestarted?: boolean | undefined;
  /** Starts although the store was moved, or a process with this name runs. */
  readonly isForced?: boolean | undefined;
  /** How long heartbeats of other processes are watched; shorter for tests. */
  readonly heartbeatWatchMs?: number | undefined;
  /** How long callers wait for an unavailable store; shorter for tests. */
  readonly storeWaitMs?: number | undefined;
  /** Shorter timeouts for tests. */
  readonly timeouts?: Timeouts;
  /** Higher for tests that disconnect many clients. */
  readonly abandonedCallsPerMinute?: number | undefined;
  readonly creditWaitMs?: number | undefined;
  /** How often a batch at a provider is looked at; shorter for tests. */
  readonly batchPollMs?: number | undefined;
  /** How many batches of a kind run at a time; fewer for tests. */
  readonly batchSlots?: number | undefined;
  /** Models that are shut down after this day stay offered, for tests; today if absent. */
  readonly modelsDay?: string | undefined;
  /** For durations, which do not follow the wall clock. */
  readonly monotonicNow?: (() => number) | undefined;
  /** The name servers of the system if absent. */
  readonly resolveTxt?: ResolveTxt | undefined;
  /** Replaced in tests without the Internet. */
  readonly fetchFile?: FetchFile | undefined;
  /** "off" for tests, whose clients and providers use the same event loop. */
  readonly overload?: OverloadGuard | "off" | undefined;
  /** Shorter for tests. */
  readonly webSocketLifetimeMs?: number | undefined;
}
