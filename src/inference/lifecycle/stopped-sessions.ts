// The sessions that were stopped lately, so that their open streams end. A stop in another process is read from the store.

/** The oldest are forgotten: their streams ended within seconds, and a hold refuses the calls of a stopped session. */
const KEPT_MAX = 10_000;

export interface StoppedSessions {
  readonly add: (accountId: string, sessionId: string) => void;
  readonly has: (accountId: string, sessionId: string | undefined) => boolean;
}

export function createStoppedSessions(): StoppedSessions {
  const stopped = new Set<string>();
  return {
    add: (accountId, sessionId) => {
      const key = `${accountId} ${sessionId}`;
      // The first entry is the oldest.
      if (!stopped.has(key) && stopped.size >= KEPT_MAX)
        stopped.delete(stopped.values().next().value ?? "");
      stopped.add(key);
    },
    has: (accountId, sessionId) =>
      sessionId !== undefined && stopped.size > 0 && stopped.has(`${accountId} ${sessionId}`),
  };
}
