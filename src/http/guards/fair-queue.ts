// A queue of calls that is fair by account: it takes one call of each account in turn. An account's newest call is first,
// because under overload its oldest calls are refused anyway and would only delay the others.

interface QueuedCall {
  readonly queuedAt: number;
  readonly admit: () => void;
  readonly refuse: () => void;
}

export interface FairQueue {
  readonly add: (accountId: string, call: QueuedCall) => void;
  readonly takeNext: () => QueuedCall | undefined;
  /** Removes and returns the calls that were queued before this time. */
  readonly takeOlder: (time: number) => readonly QueuedCall[];
  readonly isEmpty: () => boolean;
}

export function createFairQueue(): FairQueue {
  /** The accounts in the order of their turns; each has a call. */
  const callsOf = new Map<string, QueuedCall[]>();
  return {
    add: (accountId, call) => {
      const calls = callsOf.get(accountId);
      if (calls === undefined) callsOf.set(accountId, [call]);
      else calls.push(call);
    },
    takeNext: () => {
      for (const [accountId, calls] of callsOf) {
        const call = calls.pop();
        callsOf.delete(accountId);
        if (calls.length > 0) callsOf.set(accountId, calls);
        return call;
      }
      return undefined;
    },
    takeOlder: (time) => {
      const older: QueuedCall[] = [];
      for (const [accountId, calls] of callsOf) {
        const first = calls.findIndex(({ queuedAt }) => queuedAt >= time);
        older.push(...calls.splice(0, first === -1 ? calls.length : first));
        if (calls.length === 0) callsOf.delete(accountId);
      }
      return older;
    },
    isEmpty: () => callsOf.size === 0,
  };
}
