// Which processes have gone silent: those whose sign of life has not changed for a while, on the clock of the process
// that looks. A time that one process wrote is never compared with the clock of another, which may be minutes off; and
// while the store cannot be reached nobody can give a sign of life, so looks that lie too far apart prove nothing.

import { type Reader, text, whole } from "../store/db.ts";

const SILENT_MS = 30_000;
/** After a longer pause between two looks the watch begins anew. */
const PAUSE_MAX_MS = 25_000;
const SILENT_MAX = 100;

/** A process, and the last sign of life that it gave. */
export interface Silent {
  readonly name: string;
  readonly epoch: number;
  readonly seenAt: number;
}

interface Watched extends Silent {
  /** When this sign of life was first seen. */
  readonly since: number;
}

/** Answers the processes that hold something and are silent, but never the one that looks. */
export type Look = (reader: Reader) => Promise<readonly Silent[]>;

/** `steady` is a clock that runs evenly, and that nobody sets. */
export function createLook(own: string, steady: () => number): Look {
  let watched: ReadonlyMap<string, Watched> = new Map();
  let lookedAt = 0;
  return async (reader) => {
    const begunAt = steady();
    const rows = await reader.all(
      `select name, epoch, seen_at from process where name <> ? and name in (select process from hold) order by name`,
      [own],
    );
    const before = begunAt - lookedAt > PAUSE_MAX_MS ? undefined : watched;
    lookedAt = steady();
    const seen = rows.map((row): Watched => {
      const [name, epoch, seenAt] = [text(row, "name"), whole(row, "epoch"), whole(row, "seen_at")];
      const known = before?.get(name);
      const isSame = known?.epoch === epoch && known.seenAt === seenAt;
      return { name, epoch, seenAt, since: isSame ? known.since : lookedAt };
    });
    watched = new Map(seen.map((one) => [one.name, one]));
    return seen.filter(({ since }) => begunAt - since >= SILENT_MS).slice(0, SILENT_MAX);
  };
}
