// Keeps file descriptors free for new connections, calls to providers and the store. The runtime does not report idle
// connections, so the process counts its open files; while few are left, each response closes its connection.

import { MINUTE_MS } from "../../base/time.ts";

const SCARCE_SHARE = 0.75;
const SAMPLE_MS = 1_000;
const SCARCE_SAMPLE_MS = 250;
const REPORT_EVERY_MS = MINUTE_MS;
/** A sample lists all open files, so many requests share one. */
const SAMPLES_PER_LIMIT = 64;

export interface DescriptorGuard {
  /** Called once per request. */
  readonly isScarce: (now: number) => boolean;
}

export interface OpenFiles {
  /** How many files the process may have open. */
  readonly max: number;
  readonly count: () => number;
}

export function createDescriptorGuard(
  { max, count }: OpenFiles,
  onScarce: (open: number) => void = () => {},
): DescriptorGuard {
  const scarceFrom = max * SCARCE_SHARE;
  let headroom = 0;
  let sampledAt = Number.NEGATIVE_INFINITY;
  let reportedAt = Number.NEGATIVE_INFINITY;
  let requestsLeft = 0;
  return {
    isScarce: (now) => {
      requestsLeft -= 1;
      const elapsed = now - sampledAt;
      if (
        requestsLeft < 0 ||
        elapsed < 0 ||
        elapsed > (headroom > 0 ? SAMPLE_MS : SCARCE_SAMPLE_MS)
      ) {
        const open = count();
        headroom = scarceFrom - open;
        if (headroom < 0 && now - reportedAt >= REPORT_EVERY_MS) {
          reportedAt = now;
          onScarce(open);
        }
        sampledAt = now;
        // A request takes at most two descriptors: its connection and the one to the provider.
        requestsLeft = Math.max(headroom / 2, max / SAMPLES_PER_LIMIT);
      }
      return headroom < 0;
    },
  };
}
