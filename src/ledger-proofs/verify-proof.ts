// Verifies proofs and logs without the gateway, from what it sent and its public keys. Throws an error that says what is wrong.

import { verifyJws } from "../base/crypto/jws.ts";
import {
  arrayIn,
  type JsonObject,
  numberIn,
  objectIn,
  parseObject,
  stringIn,
} from "../base/json.ts";
import {
  isConsistent,
  leafNode,
  type Node,
  PLAIN,
  plainNode,
  rootFromPath,
  rootOf,
  SUM_MAX,
  SUMS,
  type Tree,
} from "./merkle-tree.ts";
import { HEAD_TYPE, hashText, SHARES, VERSION } from "./proof-format.ts";

export type PublicKeyOf = (id: string) => string | undefined;

export interface VerifiedHead {
  readonly iss: string;
  readonly size: number;
  readonly root: string;
}

export interface VerifiedProof {
  readonly iss: string;
  readonly account: string;
  readonly day: string;
  readonly balanceNano: bigint;
  /** What all accounts are owed together. */
  readonly liabilitiesNano: bigint;
  /** All entries of the account on this day, and how many of them the proof contains. */
  readonly entries: number;
  readonly verifiedEntries: number;
  readonly netNano: bigint;
}

/** What the proof must be of; the proof says the rest itself. */
export interface Expected {
  readonly account?: string | undefined;
  readonly day?: string | undefined;
}

function verifyHead(text: unknown, publicKeyOf: PublicKeyOf): VerifiedHead {
  const head = verifyJws(stringIn(text) ?? "", HEAD_TYPE, publicKeyOf);
  if (head === undefined) throw new Error("the signature of the tree head is not valid");
  const { iss, tree_size: size, root } = head;
  if (typeof iss !== "string" || typeof size !== "number" || typeof root !== "string")
    throw new Error("the tree head has no iss, tree_size or root");
  return { iss, size, root };
}

export function verifyProof(
  proof: JsonObject,
  publicKeyOf: PublicKeyOf,
  expected: Expected = {},
): VerifiedProof {
  const head = verifyHead(proof["head"], publicKeyOf);
  const logged = inclusionIn(proof["record"], "record");
  if (plainRootText(logged, head.size) !== head.root)
    throw new Error("the record is not in the log of the tree head");
  const record = textObject(logged.leaf, "ledger_day");
  const { iss, version } = record;
  if (iss !== head.iss || version !== VERSION)
    throw new Error("the record is of another gateway or version");
  const account = expected.account ?? requireText(proof, "account");
  const day = expected.day ?? requireText(proof, "day");
  if (record["day"] !== day)
    throw new Error(`the proof is of ${String(record["day"])}, not of ${day}`);
  const owner = { account, day };
  const balances = objectIn(record["balances"]) ?? {};
  const entries = objectIn(record["entries"]) ?? {};
  return {
    iss: head.iss,
    account,
    day,
    balanceNano: verifyBalance(proof, balances, owner),
    liabilitiesNano: amountIn(balances, "nano"),
    ...verifyEntries(objectIn(proof["entries"]), entries, owner),
  };
}

/** The records of a log page follow those of an older head, and are all of the newer one. Returns the newer head. */
export function verifyLog(
  page: JsonObject,
  publicKeyOf: PublicKeyOf,
  older: {
    readonly size: number;
    readonly root?: string | undefined;
    readonly leaves?: readonly Node[];
  },
): VerifiedHead & { readonly leaves: readonly Node[] } {
  const head = verifyHead(page["head"], publicKeyOf);
  const added = arrayIn(page["data"]).map((day) =>
    leafNode(PLAIN, stringIn(objectIn(day)?.["record"]) ?? ""),
  );
  if (older.size + added.length !== head.size) throw new Error("the log page has not all records");
  const leaves = [...(older.leaves ?? []), ...added];
  if (leaves.length === head.size && hashText(rootOf(PLAIN, leaves).hash) !== head.root)
    throw new Error("the records are not those of the tree head");
  const path = arrayIn(page["consistency"]).map(hashIn);
  const root =
    older.root === undefined ? rootOf(PLAIN, older.leaves ?? []).hash : hashIn(older.root);
  if (
    !isConsistent(
      { size: older.size, hash: root },
      { size: head.size, hash: hashIn(head.root) },
      path,
    )
  )
    throw new Error("the log was rewritten: it does not begin with the earlier records");
  return { ...head, leaves };
}

interface Owner {
  readonly account: string;
  readonly day: string;
}

/** All shares must be there, each once, and in another place of the tree. */
function verifyBalance(proof: JsonObject, balances: JsonObject, owner: Owner): bigint {
  const total = amountIn(balances, "nano");
  const size = numberIn(balances["leaves"]) ?? 0;
  const places = new Set<number>();
  const shares = new Set<unknown>();
  let sum = 0n;
  for (const share of arrayIn(proof["balance"])) {
    const inclusion = inclusionIn(share, "balance");
    const leaf = ownLeaf(inclusion.leaf, "balance", owner);
    const nano = amountIn(leaf, "nano");
    const root = rootOfInclusion(SUMS, inclusion, size, nano);
    if (root === undefined || hashText(root.hash) !== balances["root"] || root.sum !== total)
      throw new Error("a share of the balance does not lead to the published root and sum");
    places.add(inclusion.index);
    shares.add(leaf["share"]);
    sum += nano;
  }
  const isComplete =
    shares.size === SHARES && [...shares.keys()].every((share) => share === 0 || share === 1);
  if (!isComplete || places.size !== SHARES || arrayIn(proof["balance"]).length !== SHARES)
    throw new Error(`the proof must have the ${SHARES} shares of the balance, each once`);
  if (proof["balance_nano"] !== String(sum)) throw new Error("the shares are not the balance");
  return sum;
}

function verifyEntries(
  entries: JsonObject | undefined,
  published: JsonObject,
  owner: Owner,
): Pick<VerifiedProof, "entries" | "verifiedEntries" | "netNano"> {
  if (entries === undefined) return { entries: 0, verifiedEntries: 0, netNano: 0n };
  const inclusion = inclusionIn(entries, "entries");
  if (plainRootText(inclusion, numberIn(published["leaves"]) ?? 0) !== published["root"])
    throw new Error("the entries do not lead to the published root");
  const leaf = ownLeaf(inclusion.leaf, "entries", owner);
  const count = numberIn(leaf["count"]) ?? 0;
  const places = new Set<number>();
  let net = 0n;
  for (const each of arrayIn(entries["data"])) {
    const entry = inclusionIn(each, "entries.data");
    if (plainRootText(entry, count) !== leaf["root"] || places.has(entry.index))
      throw new Error("an entry is not one of the account's entries");
    net += entryChange(textObject(entry.leaf, "entry"), owner);
    places.add(entry.index);
  }
  const netNano = signedAmount(leaf["net_nano"]);
  if (places.size === count && net !== netNano)
    throw new Error("the entries do not add up to the published change");
  return { entries: count, verifiedEntries: places.size, netNano };
}

function entryChange(entry: JsonObject, { account, day }: Owner): bigint {
  if (entry["account"] !== account || stringIn(entry["at"])?.startsWith(day) !== true)
    throw new Error("an entry is of another account or day");
  const nano = amountIn(entry, "nano");
  const buckets = new Set<unknown>([`${account}:promo`, `${account}:paid`]);
  const isIn = (side: string): boolean => buckets.has(entry[side]);
  return (isIn("to") ? nano : 0n) - (isIn("from") ? nano : 0n);
}

function ownLeaf(text: string, type: string, { account, day }: Owner): JsonObject {
  const leaf = textObject(text, type);
  if (leaf["account"] !== account) throw new Error(`the proof is not of ${account}`);
  if (leaf["day"] !== day) throw new Error(`the proof is not of ${day}`);
  return leaf;
}

interface Inclusion {
  readonly leaf: string;
  readonly index: number;
  readonly path: readonly unknown[];
}

function inclusionIn(value: unknown, name: string): Inclusion {
  const object = objectIn(value);
  const [leaf, index] = [stringIn(object?.["leaf"]), numberIn(object?.["index"])];
  if (leaf === undefined || index === undefined) throw new Error(`the proof has no ${name}`);
  return { leaf, index, path: arrayIn(object?.["path"]) };
}

function plainRootText(inclusion: Inclusion, size: number): string | undefined {
  const root = rootOfInclusion(PLAIN, inclusion, size);
  return root && hashText(root.hash);
}

function rootOfInclusion(
  tree: Tree,
  { leaf, index, path }: Inclusion,
  size: number,
  sum = 0n,
): Node | undefined {
  const siblings = path.map((sibling) => {
    if (!tree.hasSums) return plainNode(hashIn(sibling));
    const object = objectIn(sibling) ?? {};
    return { hash: hashIn(object["hash"]), sum: amountIn(object, "nano") };
  });
  return rootFromPath(tree, leafNode(tree, leaf, sum), { index, size, path: siblings });
}

function textObject(text: string, type: string): JsonObject {
  const object = parseObject(text);
  if (object?.["type"] !== type) throw new Error(`a leaf is not of the type ${type}`);
  return object;
}

function requireText(object: JsonObject, name: string): string {
  const value = stringIn(object[name]);
  if (value === undefined) throw new Error(`the proof has no ${name}`);
  return value;
}

const AMOUNT = /^(?:0|[1-9]\d{0,30})$/;

/** Not negative, and within the range of sums. */
function amountIn(object: JsonObject, name: string): bigint {
  const value = object[name];
  if (typeof value !== "string" || !AMOUNT.test(value) || BigInt(value) > SUM_MAX)
    throw new Error(`${name} is negative, too large or not a whole number`);
  return BigInt(value);
}

function signedAmount(value: unknown): bigint {
  const text = stringIn(value) ?? "";
  const isNegative = text.startsWith("-");
  const amount = amountIn({ net_nano: isNegative ? text.slice(1) : text }, "net_nano");
  return isNegative ? -amount : amount;
}

const HASH_BYTES = 32;

function hashIn(value: unknown): Buffer {
  const hash = Buffer.from(stringIn(value) ?? "", "base64url");
  if (hash.length !== HASH_BYTES || hashText(hash) !== value)
    throw new Error("a hash is not valid");
  return hash;
}
