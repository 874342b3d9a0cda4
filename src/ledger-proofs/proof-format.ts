// The texts that are hashed and signed, and the JSON of proofs. Hashes are of the texts as they are sent, so that no reader
// has to write JSON in the same way.

import type { Node } from "./merkle-tree.ts";

/** The `typ` of a signed tree head. */
export const HEAD_TYPE = "postern-ledger-head+jwt";
export const VERSION = 1;

/** Each balance is split at random into so many leaves, because a path shows the amount of the leaf beside one's own. */
export const SHARES = 2;

/** A leaf of the log. */
export interface DayRecord {
  readonly type: "ledger_day";
  readonly version: number;
  readonly iss: string;
  readonly day: string;
  readonly balances: { readonly root: string; readonly leaves: number; readonly nano: string };
  readonly entries: {
    readonly root: string;
    readonly leaves: number;
    /** Entries of all accounts. */
    readonly count: number;
    /** By how much they changed all balances. */
    readonly net_nano: string;
  };
  /** What the change since the record of the day before is more than `net_nano`; null without that record. */
  readonly difference_nano: string | null;
}

export function parseRecord(text: string): DayRecord {
  // Safe because the log has only texts that `leafText` wrote.
  return JSON.parse(text) as DayRecord;
}

export interface BalanceLeaf {
  readonly type: "balance";
  readonly day: string;
  readonly account: string;
  readonly share: number;
  readonly nano: string;
  /** Random, so that the hash says nothing about the other members. */
  readonly blinding: string;
}

/** An account's entries of a day: the root of the tree that has each as a leaf. */
export interface EntriesLeaf {
  readonly type: "entries";
  readonly day: string;
  readonly account: string;
  readonly root: string;
  readonly count: number;
  readonly net_nano: string;
  readonly blinding: string;
}

export interface EntryLeaf {
  readonly type: "entry";
  readonly account: string;
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly nano: string;
  readonly kind: string;
  readonly ref: string;
  readonly at: string;
}

export interface PlainInclusion {
  readonly leaf: string;
  readonly index: number;
  readonly path: readonly string[];
}

export interface SumInclusion {
  readonly leaf: string;
  readonly index: number;
  readonly path: readonly { readonly hash: string; readonly nano: string }[];
}

export function leafText(leaf: DayRecord | BalanceLeaf | EntriesLeaf | EntryLeaf): string {
  return JSON.stringify(leaf);
}

export function hashText(hash: Buffer): string {
  return hash.toString("base64url");
}

export function plainPath(path: readonly Node[]): readonly string[] {
  return path.map(({ hash }) => hashText(hash));
}

export function sumPath(path: readonly Node[]): SumInclusion["path"] {
  return path.map(({ hash, sum }) => ({ hash: hashText(hash), nano: String(sum) }));
}
