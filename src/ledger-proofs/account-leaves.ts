// The leaves of an account of a day. Their secrets follow from the master secret, the day and the account, so a repeated run
// builds the same trees, and a proof is made without storing them.

import { createHmac } from "node:crypto";
import type { Nano } from "../base/money/money.ts";
import { timestamp } from "../http/schemas.ts";
import { type Entry, sumOfChanges } from "./day-entries.ts";
import { POSITION_BYTES } from "./leaf-pages.ts";
import { leafNode, type Node, PLAIN, rootOf, SUMS } from "./merkle-tree.ts";
import { hashText, leafText, SHARES } from "./proof-format.ts";

export interface AccountDay {
  readonly day: string;
  readonly account: string;
}

export interface AccountSecrets {
  readonly blinding: string;
  /** The positions of the shares of the balance. */
  readonly positions: readonly Buffer[];
  readonly entriesPosition: Buffer;
  /** 64 random bits. */
  readonly split: bigint;
}

export function accountSecrets(key: Uint8Array, { day, account }: AccountDay): AccountSecrets {
  const bytes = createHmac("sha512", key).update(`${day} ${account}`).digest();
  const partAt = (part: number): Buffer =>
    bytes.subarray(32 + part * POSITION_BYTES, 32 + (part + 1) * POSITION_BYTES);
  return {
    blinding: hashText(bytes.subarray(0, 32)),
    positions: Array.from({ length: SHARES }, (_, share) => partAt(share)),
    entriesPosition: partAt(SHARES),
    split: partAt(SHARES + 1).readBigUInt64BE(),
  };
}

export function sharesOf(balance: Nano, { split }: AccountSecrets): readonly Nano[] {
  const first = (balance * split) >> 64n;
  return [first, balance - first];
}

export interface Leaf {
  readonly text: string;
  readonly node: Node;
}

export function balanceLeaf(
  { day, account }: AccountDay,
  { blinding }: AccountSecrets,
  { share, nano }: { readonly share: number; readonly nano: Nano },
): Leaf {
  const text = leafText({ type: "balance", day, account, share, nano: String(nano), blinding });
  return { text, node: leafNode(SUMS, text, nano) };
}

/** The leaf of all entries of the account, and those of each of them. */
export function entriesLeaf(
  { day, account }: AccountDay,
  { blinding }: AccountSecrets,
  entries: readonly Entry[],
): Leaf & { readonly entries: readonly Leaf[] } {
  const leaves = entries.map(entryLeaf);
  const { hash } = rootOf(
    PLAIN,
    leaves.map(({ node }) => node),
  );
  const text = leafText({
    type: "entries",
    day,
    account,
    root: hashText(hash),
    count: entries.length,
    net_nano: String(sumOfChanges(entries)),
    blinding,
  });
  return { text, node: leafNode(PLAIN, text), entries: leaves };
}

function entryLeaf({ accountId: account, id, from, to, amount, kind, ref, at }: Entry): Leaf {
  const nano = String(amount);
  const text = leafText({
    type: "entry",
    account,
    id,
    from,
    to,
    nano,
    kind,
    ref,
    at: timestamp(at),
  });
  return { text, node: leafNode(PLAIN, text) };
}
