// Rows that somebody else keeps locked, such as an operator's own transaction, must hold up nobody whose rows are free. So
// the operations that concern them, their lane, are set aside; after a pause one of them is tried again, alone.

export interface LockedLanes<One> {
  /** Those of a batch that may be tried now; the others are set aside. */
  readonly admit: (batch: readonly One[]) => readonly One[];
  /** It was tried alone, and its rows were locked. */
  readonly shut: (one: One, cause: unknown) => void;
  /** These were written. */
  readonly open: (batch: readonly One[]) => void;
  /** Whether its lane was locked, and is to be tried again. */
  readonly isDue: (one: One) => boolean;
  /** How many of the first that wait may be tried together: a lane that was locked is tried by one alone. */
  readonly together: (queue: readonly One[], most: number) => number;
  readonly kept: () => number;
  /** Resolves when nothing is kept. */
  readonly empty: () => Promise<void>;
}

export interface LanesParts<One> {
  readonly pauseMs: number;
  readonly laneOf: (one: One) => string;
  /** Whether it is kept until its lane is tried again; if not, it was refused. */
  readonly mayKeep: (one: One, cause: unknown) => boolean;
  /** Given what was kept of a lane when its pause is over. */
  readonly again: (kept: readonly One[]) => void;
}

interface Lane<One> {
  readonly kept: One[];
  pause: Promise<void> | undefined;
  cause: unknown;
}

export function createLockedLanes<One>(parts: LanesParts<One>): LockedLanes<One> {
  const { pauseMs, laneOf, mayKeep, again } = parts;
  const lanes = new Map<string, Lane<One>>();
  const isDue = (one: One): boolean => {
    if (lanes.size === 0) return false;
    const lane = lanes.get(laneOf(one));
    return lane !== undefined && lane.pause === undefined;
  };
  const keep = (lane: Lane<One>, one: One): void => {
    if (mayKeep(one, lane.cause)) lane.kept.push(one);
  };
  const waitOn = (lane: Lane<One>): Promise<void> =>
    new Promise<void>((resolve) => setTimeout(resolve, pauseMs)).then(() => {
      lane.pause = undefined;
      again(lane.kept.splice(0));
    });
  return {
    admit: (batch) => {
      if (lanes.size === 0) return batch;
      return batch.filter((one) => {
        const lane = lanes.get(laneOf(one));
        if (lane?.pause === undefined) return true;
        keep(lane, one);
        return false;
      });
    },
    shut: (one, cause) => {
      const lane = lanes.get(laneOf(one)) ?? { kept: [], pause: undefined, cause };
      lanes.set(laneOf(one), lane);
      lane.cause = cause;
      lane.pause ??= waitOn(lane);
      keep(lane, one);
    },
    open: (batch) => {
      for (const one of batch) if (isDue(one)) lanes.delete(laneOf(one));
    },
    together: (queue, most) => {
      const due = lanes.size === 0 ? -1 : queue.findIndex(isDue);
      return due < 0 ? most : Math.min(most, Math.max(due, 1));
    },
    isDue,
    kept: () => [...lanes.values()].reduce((sum, { kept }) => sum + kept.length, 0),
    empty: async () => {
      for (;;) {
        const waiting = [...lanes.values()].flatMap(({ kept, pause }) =>
          kept.length > 0 && pause !== undefined ? [pause] : [],
        );
        if (waiting.length === 0) return;
        await Promise.all(waiting);
      }
    },
  };
}
