// Merkle trees in the shape of RFC 9162: plain ones, and Merkle-sum trees, whose nodes carry the sum of the amounts below
// them. Each kind of node has a prefix of its own, so that no node is taken for a leaf, and no tree for one of the other kind.

import { createHash } from "node:crypto";

export interface Node {
  readonly hash: Buffer;
  /** 0 in a plain tree. */
  readonly sum: bigint;
}

export interface Tree {
  readonly hasSums: boolean;
  readonly leafPrefix: number;
  readonly nodePrefix: number;
}

/** As in RFC 9162. */
export const PLAIN: Tree = { hasSums: false, leafPrefix: 0, nodePrefix: 1 };
export const SUMS: Tree = { hasSums: true, leafPrefix: 2, nodePrefix: 3 };

/** Far above any sum of balances. A sum beyond it is refused, so that it cannot wrap. */
export const SUM_MAX = 2n ** 100n;
const SUM_BYTES = 16;
/** Indexes are shifted as 32-bit numbers. */
export const SIZE_MAX = 2 ** 30;

export function leafNode({ leafPrefix }: Tree, text: string, sum = 0n): Node {
  assertSum(sum);
  return { hash: sha256(Buffer.of(leafPrefix), Buffer.from(text)), sum };
}

export function joinNodes({ hasSums, nodePrefix }: Tree, left: Node, right: Node): Node {
  const prefix = Buffer.of(nodePrefix);
  if (!hasSums) return { hash: sha256(prefix, left.hash, right.hash), sum: 0n };
  const sum = left.sum + right.sum;
  for (const one of [left.sum, right.sum, sum]) assertSum(one);
  const hash = sha256(prefix, sumBytes(left.sum), left.hash, sumBytes(right.sum), right.hash);
  return { hash, sum };
}

/** The root of the nodes of one level; of no nodes, the hash of nothing. */
export function rootOf(tree: Tree, nodes: readonly Node[], from = 0, to = nodes.length): Node {
  const first = nodes[from];
  if (first === undefined || from >= to) return { hash: sha256(), sum: 0n };
  if (to - from === 1) return first;
  const middle = from + splitOf(to - from);
  return joinNodes(tree, rootOf(tree, nodes, from, middle), rootOf(tree, nodes, middle, to));
}

/** The siblings from the node up to the root. */
export function inclusionPath(tree: Tree, nodes: readonly Node[], index: number): readonly Node[] {
  return inclusionPaths(tree, nodes)(index);
}

/** `inclusionPath` of any number of nodes: each branch of the tree is hashed once for all of them. */
export function inclusionPaths(
  tree: Tree,
  nodes: readonly Node[],
): (index: number) => readonly Node[] {
  const branchOf = memoizeBranches(tree, nodes);
  return (index) => {
    const path: Node[] = [];
    let [from, to] = [0, nodes.length];
    while (to - from > 1) {
      const middle = from + splitOf(to - from);
      if (index < middle) {
        path.push(branchOf(middle, to));
        to = middle;
      } else {
        path.push(branchOf(from, middle));
        from = middle;
      }
    }
    return path.toReversed();
  };
}

/** `rootOf` these nodes, with what it has computed before. */
function memoizeBranches(tree: Tree, nodes: readonly Node[]): (from: number, to: number) => Node {
  const known = new Map<number, Node>();
  const branchOf = (from: number, to: number): Node => {
    if (to - from <= 1) return rootOf(tree, nodes, from, to);
    const name = from * (nodes.length + 1) + to;
    const found = known.get(name);
    if (found !== undefined) return found;
    const middle = from + splitOf(to - from);
    const joined = joinNodes(tree, branchOf(from, middle), branchOf(middle, to));
    known.set(name, joined);
    return joined;
  };
  return branchOf;
}

/** The root that follows from a leaf and its path (RFC 9162, 2.1.3.2); undefined if the path does not fit the tree's size. */
export function rootFromPath(
  tree: Tree,
  leaf: Node,
  { index, size, path }: { index: number; size: number; path: readonly Node[] },
): Node | undefined {
  if (!isSize(size) || !isSize(index) || index >= size) return undefined;
  let [node, at, last] = [leaf, index, size - 1];
  for (const sibling of path) {
    if (last === 0) return undefined;
    if (at % 2 === 1 || at === last) {
      node = joinNodes(tree, sibling, node);
      for (; at % 2 === 0 && at !== 0; at >>= 1) last >>= 1;
    } else node = joinNodes(tree, node, sibling);
    at >>= 1;
    last >>= 1;
  }
  return last === 0 ? node : undefined;
}

/** Proves that a log of these leaves begins with its first `size` leaves (RFC 9162, 2.1.4.1). */
export function consistencyPath(leaves: readonly Node[], size: number): readonly Node[] {
  const path: Node[] = [];
  let [from, to, isOldRoot] = [0, leaves.length, true];
  if (size === 0) return path;
  while (size - from < to - from) {
    const middle = from + splitOf(to - from);
    if (size <= middle) {
      path.push(rootOf(PLAIN, leaves, middle, to));
      to = middle;
    } else {
      path.push(rootOf(PLAIN, leaves, from, middle));
      from = middle;
      isOldRoot = false;
    }
  }
  if (!isOldRoot) path.push(rootOf(PLAIN, leaves, from, to));
  return path.toReversed();
}

interface Head {
  readonly size: number;
  readonly hash: Buffer;
}

/** RFC 9162, 2.1.4.2. */
export function isConsistent(older: Head, newer: Head, path: readonly Buffer[]): boolean {
  if (!isSize(older.size) || !isSize(newer.size) || older.size > newer.size) return false;
  if (older.size === newer.size) return path.length === 0 && older.hash.equals(newer.hash);
  if (older.size === 0) return path.length === 0;
  const roots = rootsFromPath(older, newer.size, path);
  return roots !== undefined && roots[0].equals(older.hash) && roots[1].equals(newer.hash);
}

/** The older and the newer root. */
function rootsFromPath(
  older: Head,
  newerSize: number,
  path: readonly Buffer[],
): readonly [Buffer, Buffer] | undefined {
  let [at, last] = [older.size - 1, newerSize - 1];
  for (; at % 2 === 1; at >>= 1) last >>= 1;
  // The older tree is a whole branch of the newer one.
  const [first, ...rest] = at === 0 ? [older.hash, ...path] : path;
  if (first === undefined) return undefined;
  let [oldRoot, newRoot]: [Node, Node] = [plainNode(first), plainNode(first)];
  for (const hash of rest) {
    if (last === 0) return undefined;
    const sibling = plainNode(hash);
    if (at % 2 === 1 || at === last) {
      oldRoot = joinNodes(PLAIN, sibling, oldRoot);
      newRoot = joinNodes(PLAIN, sibling, newRoot);
      for (; at % 2 === 0 && at !== 0; at >>= 1) last >>= 1;
    } else newRoot = joinNodes(PLAIN, newRoot, sibling);
    at >>= 1;
    last >>= 1;
  }
  return last === 0 ? [oldRoot.hash, newRoot.hash] : undefined;
}

export function plainNode(hash: Buffer): Node {
  return { hash, sum: 0n };
}

function isSize(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0 && value <= SIZE_MAX;
}

function assertSum(sum: bigint): void {
  if (sum < 0n || sum > SUM_MAX) throw new RangeError("a sum is negative or too large");
}

function sumBytes(sum: bigint): Buffer {
  return Buffer.from(sum.toString(16).padStart(2 * SUM_BYTES, "0"), "hex");
}

/** The largest power of two below `size`: so many leaves are on the left. */
function splitOf(size: number): number {
  return 2 ** (31 - Math.clz32(size - 1));
}

function sha256(...parts: readonly Buffer[]): Buffer {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}
