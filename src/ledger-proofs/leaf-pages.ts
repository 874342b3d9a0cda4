// The leaves of a tree as pages of bytes. A leaf has a random position, so that accounts beside each other have nothing in
// common, and 48 bytes: a tree of a million accounts takes 96 MB while it is built, and is then read by page.

import { inclusionPath, type Node, rootOf, type Tree } from "./merkle-tree.ts";

export const POSITION_BYTES = 8;
const HASH_BYTES = 32;
const LEAF_BYTES = POSITION_BYTES + HASH_BYTES + 8;
const LEAVES_PER_PAGE = 1_024;
/** In the index of the pages: the first position, the hash and the sum of a page. */
const PAGE_BYTES = POSITION_BYTES + HASH_BYTES + 16;
const BUCKETS = 256;

export interface LeafPages {
  readonly root: Node;
  readonly leaves: number;
  /** The roots of all pages. */
  readonly index: Buffer;
  readonly pages: readonly Buffer[];
}

export interface LeafCollector {
  readonly add: (position: Buffer, leaf: Node) => void;
  /** Sorts the leaves by position. Other work runs in between. */
  readonly toPages: (tree: Tree) => Promise<LeafPages>;
}

export function createLeafCollector(): LeafCollector {
  const buckets = Array.from({ length: BUCKETS }, () => ({ bytes: Buffer.alloc(0), used: 0 }));
  return {
    add: (position, { hash, sum }) => {
      const bucket = buckets[position[0] ?? 0];
      if (bucket === undefined) throw new Error("a position without a first byte");
      if (bucket.used === bucket.bytes.length)
        bucket.bytes = Buffer.concat([
          bucket.bytes,
          Buffer.alloc(Math.max(LEAF_BYTES, bucket.used)),
        ]);
      position.copy(bucket.bytes, bucket.used);
      hash.copy(bucket.bytes, bucket.used + POSITION_BYTES);
      bucket.bytes.writeBigUInt64BE(sum, bucket.used + POSITION_BYTES + HASH_BYTES);
      bucket.used += LEAF_BYTES;
    },
    toPages: async (tree) => {
      const pages: Buffer[] = [];
      const index: Buffer[] = [];
      const roots: Node[] = [];
      let open: Buffer[] = [];
      const close = (): void => {
        const page = Buffer.concat(open);
        const root = rootOf(tree, open.map(toLeaf));
        pages.push(page);
        roots.push(root);
        index.push(Buffer.concat([page.subarray(0, POSITION_BYTES), root.hash, sumBytes(root)]));
        open = [];
      };
      for (const { bytes, used } of buckets) {
        const leaves = chunksOf(bytes.subarray(0, used), LEAF_BYTES);
        for (const leaf of leaves.toSorted((one, other) => one.compare(other)))
          if (open.push(leaf) === LEAVES_PER_PAGE) close();
        await new Promise((resolve) => setImmediate(resolve));
      }
      if (open.length > 0) close();
      const leaves = buckets.reduce((sum, { used }) => sum + used / LEAF_BYTES, 0);
      return { root: rootOf(tree, roots), leaves, index: Buffer.concat(index), pages };
    },
  };
}

export interface FoundLeaf {
  readonly leaf: Node;
  readonly index: number;
  readonly path: readonly Node[];
}

/** The number of the page that has a position, by the index of the pages. */
export function pageOf(index: Uint8Array, position: Buffer): number {
  const after = chunksOf(index, PAGE_BYTES).findIndex(
    (page) => Buffer.compare(page.subarray(0, POSITION_BYTES), position) > 0,
  );
  return Math.max(0, after === -1 ? index.length / PAGE_BYTES - 1 : after - 1);
}

/** The leaf at a position with its path to the root of all pages. */
export function findLeaf(
  tree: Tree,
  { index, page, content }: { index: Uint8Array; page: number; content: Uint8Array },
  position: Buffer,
): FoundLeaf | undefined {
  const leaves = chunksOf(content, LEAF_BYTES);
  const at = leaves.findIndex((leaf) => position.equals(leaf.subarray(0, POSITION_BYTES)));
  const nodes = leaves.map(toLeaf);
  const leaf = nodes[at];
  if (leaf === undefined) return undefined;
  const path = [
    ...inclusionPath(tree, nodes, at),
    ...inclusionPath(tree, chunksOf(index, PAGE_BYTES).map(toPageRoot), page),
  ];
  return { leaf, index: page * LEAVES_PER_PAGE + at, path };
}

function chunksOf(bytes: Uint8Array, size: number): readonly Buffer[] {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: all.length / size }, (_, at) =>
    all.subarray(at * size, (at + 1) * size),
  );
}

function toLeaf(bytes: Buffer): Node {
  return { hash: hashOf(bytes), sum: bytes.readBigUInt64BE(POSITION_BYTES + HASH_BYTES) };
}

function toPageRoot(bytes: Buffer): Node {
  const at = POSITION_BYTES + HASH_BYTES;
  const sum = (bytes.readBigUInt64BE(at) << 64n) | bytes.readBigUInt64BE(at + 8);
  return { hash: hashOf(bytes), sum };
}

function hashOf(bytes: Buffer): Buffer {
  return bytes.subarray(POSITION_BYTES, POSITION_BYTES + HASH_BYTES);
}

function sumBytes({ sum }: Node): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64BE(sum >> 64n);
  bytes.writeBigUInt64BE(sum & 0xffff_ffff_ffff_ffffn, 8);
  return bytes;
}
