import { describe, expect, test } from "bun:test";
import {
  consistencyPath,
  inclusionPath,
  inclusionPaths,
  isConsistent,
  joinNodes,
  leafNode,
  PLAIN,
  rootFromPath,
  rootOf,
  SUM_MAX,
  SUMS,
  type Tree,
} from "../../src/ledger-proofs/merkle-tree.ts";
import { expectLinearCpuTime } from "../support/cpu-time.ts";

const SIZE = 40;
const leavesOf = (tree: Tree, size: number) =>
  Array.from({ length: size }, (_, index) =>
    leafNode(tree, `leaf ${index}`, tree.hasSums ? BigInt(index) : 0n),
  );

/** The leaves and roots of the tests of certificate transparency. */
const KNOWN_LEAVES = ["", "\u0000", "\u0010", " !", "01", "@ABC", "PQRSTUVW", "`abcdefghijklmno"];
const KNOWN_ROOTS: Readonly<Record<number, string>> = {
  1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
};

test("roots are those of RFC 9162", () => {
  for (const [size, root] of Object.entries(KNOWN_ROOTS)) {
    const leaves = KNOWN_LEAVES.slice(0, Number(size)).map((text) => leafNode(PLAIN, text));
    expect(rootOf(PLAIN, leaves).hash.toString("hex")).toBe(root);
  }
});

describe.each([
  ["plain", PLAIN],
  ["with sums", SUMS],
] as const)("a tree %s", (_, tree) => {
  test("proves each leaf of each size, and no other leaf, place or size", () => {
    for (let size = 1; size <= SIZE; size++) {
      const leaves = leavesOf(tree, size);
      const root = rootOf(tree, leaves).hash;
      leaves.forEach((leaf, index) => {
        const path = inclusionPath(tree, leaves, index);
        expect(rootFromPath(tree, leaf, { index, size, path })?.hash).toEqual(root);
        const other = leafNode(tree, "another leaf", leaf.sum);
        expect(rootFromPath(tree, other, { index, size, path })?.hash).not.toEqual(root);
        for (const wrong of [
          { index: (index + 1) % size, size },
          { index, size: size * 2 + 1 },
          { index: -1, size },
          { index, size: 0 },
        ])
          if (wrong.index !== index || wrong.size !== size)
            expect(rootFromPath(tree, leaf, { ...wrong, path })?.hash).not.toEqual(root);
      });
    }
  });

  test("an inner node is not a leaf: their hashes have different prefixes", () => {
    const [left, right] = leavesOf(tree, 2);
    if (left === undefined || right === undefined) throw new Error("two leaves");
    const inner = joinNodes(tree, left, right);
    const preimage = Buffer.concat([left.hash, right.hash]).toString("latin1");
    expect(leafNode(tree, preimage, inner.sum).hash).not.toEqual(inner.hash);
  });
});

test("the paths of all leaves take as long as the tree is large", () => {
  const leaves = leavesOf(PLAIN, 4_000);
  expectLinearCpuTime((size) => {
    const pathOf = inclusionPaths(PLAIN, leaves.slice(0, size));
    for (let index = 0; index < size; index++) pathOf(index);
  }, leaves.length);
});

test("a sum that is negative or beyond the range is refused", () => {
  expect(() => leafNode(SUMS, "debt", -1n)).toThrow("negative or too large");
  const largest = leafNode(SUMS, "largest", SUM_MAX);
  expect(() => joinNodes(SUMS, largest, leafNode(SUMS, "one", 1n))).toThrow("too large");
  const negative = { ...largest, sum: -1n };
  expect(() => joinNodes(SUMS, negative, largest)).toThrow("negative");
});

test("a moved amount changes the root although the total is the same", () => {
  const one = [leafNode(SUMS, "a", 1n), leafNode(SUMS, "b", 2n), leafNode(SUMS, "c", 3n)];
  const other = one.map((leaf, index) => ({ ...leaf, sum: index === 2 ? 2n : BigInt(index) * 2n }));
  expect(rootOf(SUMS, other).hash).not.toEqual(rootOf(SUMS, one).hash);
});

test("each log proves each earlier size of itself, and no rewritten one", () => {
  const leaves = leavesOf(PLAIN, SIZE);
  const headOf = (nodes: typeof leaves, size: number) => ({
    size,
    hash: rootOf(PLAIN, nodes, 0, size).hash,
  });
  for (let size = 0; size <= SIZE; size++)
    for (let older = 0; older <= size; older++) {
      const log = leaves.slice(0, size);
      const path = consistencyPath(log, older).map(({ hash }) => hash);
      expect(isConsistent(headOf(log, older), headOf(log, size), path)).toBe(true);
      if (older === 0) continue;
      const rewritten = leaves.with(older - 1, leafNode(PLAIN, "rewritten")).slice(0, size);
      const newer = headOf(rewritten, size);
      const forged = consistencyPath(rewritten, older).map(({ hash }) => hash);
      expect(isConsistent(headOf(log, older), newer, forged)).toBe(false);
      expect(isConsistent(headOf(log, older), newer, path)).toBe(false);
    }
});
