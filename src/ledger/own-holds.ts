// The holds of this process: which are open, and how the latest ones were settled. A store that lost commits,
// such as a promoted standby that was behind, has holds again that were settled.

import type { SettleRequest } from "./decide.ts";

/** Some seconds of a busy process: more than a standby usually lags. */
const SETTLEMENTS_MAX = 10_000;

export interface OwnHolds<UsageRecord> {
  readonly addOpen: (id: string) => void;
  readonly removeOpen: (id: string) => void;
  readonly addSettlement: (request: SettleRequest<UsageRecord>) => void;
  readonly isOpen: (id: string) => boolean;
  /** The lifetime of an open hold begins anew. */
  readonly extend: (id: string) => void;
  /** Whether the hold was extended since the last call. */
  readonly takeExtension: (id: string) => boolean;
  /** How a hold that is not open was settled, if it was among the last ones. */
  readonly findSettlement: (id: string) => SettleRequest<UsageRecord> | undefined;
  /** Forgets the older half of the settlements. */
  readonly forgetOlder: () => void;
  /** The settlements of calls on leases since the call before the last one: no hold tells that the store lost one. */
  readonly takeLeased: () => readonly SettleRequest<UsageRecord>[];
  /** Returns taken ones, for the next time. */
  readonly addLeased: (requests: readonly SettleRequest<UsageRecord>[]) => void;
}

/** `shrink` removes the parts of a record that are too large to keep. */
export function createOwnHolds<UsageRecord>(
  shrink: (record: UsageRecord) => UsageRecord = (record) => record,
): OwnHolds<UsageRecord> {
  const open = new Set<string>();
  const extended = new Set<string>();
  // Two halves, because deleting the oldest entries of a map one by one costs more than everything else here.
  let newer = new Map<string, SettleRequest<UsageRecord>>();
  let older = newer;
  let leased: SettleRequest<UsageRecord>[] = [];
  let leasedBefore: SettleRequest<UsageRecord>[] = [];
  const forgetOlder = (): void => {
    older = newer;
    newer = new Map();
  };
  return {
    addOpen: (id) => {
      open.add(id);
    },
    removeOpen: (id) => {
      open.delete(id);
      extended.delete(id);
    },
    addSettlement: (request) => {
      const { id, record } = request;
      if (newer.size >= SETTLEMENTS_MAX / 2) forgetOlder();
      const kept = record === undefined ? undefined : shrink(record);
      const small = kept === undefined || kept === record ? request : { ...request, record: kept };
      newer.set(id, small);
      if (request.lease !== undefined && leased.length < SETTLEMENTS_MAX) leased.push(small);
    },
    isOpen: (id) => open.has(id),
    extend: (id) => {
      if (open.has(id)) extended.add(id);
    },
    takeExtension: (id) => extended.delete(id),
    findSettlement: (id) => newer.get(id) ?? older.get(id),
    forgetOlder,
    takeLeased: () => {
      const taken = [...leasedBefore, ...leased];
      leasedBefore = leased;
      leased = [];
      return taken;
    },
    addLeased: (requests) => {
      leased.push(...requests.slice(0, Math.max(0, SETTLEMENTS_MAX - leased.length)));
    },
  };
}
