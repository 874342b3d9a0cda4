// The log of day records, with its signed heads. Records never change, so each is read from the store once.

import { signJws, type SigningKey } from "../base/crypto/jws.ts";
import { SECOND_MS } from "../base/time.ts";
import { type Db, integer, text } from "../store/db.ts";
import {
  consistencyPath,
  inclusionPath,
  leafNode,
  type Node,
  PLAIN,
  rootOf,
} from "./merkle-tree.ts";
import { HEAD_TYPE, hashText, plainPath } from "./proof-format.ts";

export interface LoggedDay {
  readonly day: string;
  /** The text of the record. */
  readonly record: string;
  readonly publishedAt: number;
}

export interface PublishedLog {
  /** All records of the store. */
  readonly read: () => Promise<readonly LoggedDay[]>;
  /** Signed, of the first `size` records. */
  readonly headOf: (size: number) => string;
  readonly inclusion: (index: number, size: number) => readonly string[];
  /** Proves that the log of `newer` records begins with that of `older` ones. */
  readonly consistency: (older: number, newer: number) => readonly string[];
}

export interface PublishedLogDeps {
  readonly db: Db;
  readonly baseUrl: string;
  readonly currentKey: () => SigningKey;
}

export function createPublishedLog({ db, baseUrl, currentKey }: PublishedLogDeps): PublishedLog {
  const days: LoggedDay[] = [];
  const leaves: Node[] = [];
  return {
    read: async () => {
      const rows = await db.all(
        "select number, day, record, published_at from ledger_day where number >= ? order by number",
        [days.length],
      );
      for (const row of rows) {
        // Another request may have read it meanwhile.
        if (integer(row, "number") !== days.length) continue;
        const record = text(row, "record");
        days.push({ day: text(row, "day"), record, publishedAt: integer(row, "published_at") });
        leaves.push(leafNode(PLAIN, record));
      }
      return days;
    },
    headOf: (size) =>
      signJws(currentKey(), HEAD_TYPE, {
        iss: baseUrl,
        tree_size: size,
        root: hashText(rootOf(PLAIN, leaves, 0, size).hash),
        timestamp: Math.floor((days[size - 1]?.publishedAt ?? 0) / SECOND_MS),
      }),
    inclusion: (index, size) => plainPath(inclusionPath(PLAIN, leaves.slice(0, size), index)),
    consistency: (older, newer) => plainPath(consistencyPath(leaves.slice(0, newer), older)),
  };
}
