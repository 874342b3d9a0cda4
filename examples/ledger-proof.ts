// Verifies the balance and the entries of an account in the signed log of the ledger, with no code of the gateway.
//   node bin/bun.js examples/ledger-proof.ts http://127.0.0.1:8787 "$POSTERN_API_KEY" acct_… 2026-11-27

import { createHash, createPublicKey, verify } from "node:crypto";

const [url = "http://127.0.0.1:8787", apiKey = "", account = "", day] = process.argv.slice(2);

interface PublicKey {
  readonly kid: string;
  readonly kty: string;
  readonly crv: string;
  readonly x: string;
}

interface Inclusion {
  readonly leaf: string;
  readonly index: number;
  readonly path: readonly (string | { readonly hash: string; readonly nano: string })[];
}

async function get(path: string) {
  const response = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${apiKey}` } });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return await response.json();
}

function must(isTrue: boolean, text: string): void {
  if (!isTrue) throw new Error(text);
}

function payloadOf(jws: string, type: string, { keys }: { keys: readonly PublicKey[] }) {
  const [head = "", body = "", signature = ""] = jws.split(".");
  const { alg, kid, typ } = JSON.parse(Buffer.from(head, "base64url").toString());
  const jwk = keys.find((key) => key.kid === kid);
  must(alg === "EdDSA" && typ === type && jwk !== undefined, "not signed by this gateway");
  const key = createPublicKey({ key: { ...jwk }, format: "jwk" });
  const signed = Buffer.from(`${head}.${body}`);
  must(verify(null, signed, key, Buffer.from(signature, "base64url")), "the signature is wrong");
  return JSON.parse(Buffer.from(body, "base64url").toString());
}

const sha256 = (...parts: readonly Uint8Array[]) =>
  createHash("sha256").update(Buffer.concat(parts)).digest();
const sumBytes = (sum: bigint) => Buffer.from(sum.toString(16).padStart(32, "0"), "hex");

/** The root that follows from a leaf (RFC 9162, 2.1.3.2). With a `sum`, of the Merkle-sum tree. */
function rootFrom({ leaf, index, path }: Inclusion, size: number, sum?: bigint) {
  const [leafPrefix, nodePrefix] = sum === undefined ? [0, 1] : [2, 3];
  let hash = sha256(Buffer.of(leafPrefix), Buffer.from(leaf));
  let total = sum ?? 0n;
  let last = size - 1;
  for (const step of path) {
    const [other, nano] = typeof step === "string" ? [step, 0n] : [step.hash, BigInt(step.nano)];
    must(last > 0 && nano >= 0n, "the path is too long, or has a negative sum");
    const isRight = index % 2 === 1 || index === last;
    const own = { hash, total };
    const sibling = { hash: Buffer.from(other, "base64url"), total: nano };
    const [left, right] = isRight ? [sibling, own] : [own, sibling];
    const sums = sum === undefined ? [] : [sumBytes(left.total), sumBytes(right.total)];
    const [leftSum = Buffer.of(), rightSum = Buffer.of()] = sums;
    hash = sha256(Buffer.of(nodePrefix), leftSum, left.hash, rightSum, right.hash);
    total += nano;
    if (isRight) for (; index % 2 === 0 && index > 0; index >>= 1) last >>= 1;
    index >>= 1;
    last >>= 1;
  }
  must(last === 0, "the path is too short");
  return `${hash.toString("base64url")} ${total}`;
}

const proof = await get(`/v1/ledger/proof?limit=1000${day === undefined ? "" : `&day=${day}`}`);
const head = payloadOf(proof.head, "postern-ledger-head+jwt", await get("/.well-known/jwks.json"));
must(rootFrom(proof.record, head.tree_size) === `${head.root} 0`, "the record is not in the log");
const record = JSON.parse(proof.record.leaf);
must(record.type === "ledger_day" && record.day === proof.day, "the record is of another day");
must(day === undefined || day === record.day, "the proof is of another day");

const { balances, entries } = record;
const shares = proof.balance.map((share: Inclusion) => {
  const leaf = JSON.parse(share.leaf);
  must(leaf.type === "balance" && leaf.account === account, "a leaf of another account");
  must(leaf.day === record.day && BigInt(leaf.nano) >= 0n, "a leaf of another day, or a debt");
  const root = rootFrom(share, balances.leaves, BigInt(leaf.nano));
  must(root === `${balances.root} ${balances.nano}`, "a share is not in the published root");
  return leaf;
});
const numbers = shares.map(({ share }: { share: number }) => share);
must(numbers.join() === "0,1", "the balance has two shares, each once");
const balance = BigInt(shares[0].nano) + BigInt(shares[1].nano);

let change = 0n;
if (proof.entries !== null) {
  const own = JSON.parse(proof.entries.leaf);
  must(own.type === "entries" && own.account === account, "entries of another account");
  must(rootFrom(proof.entries, entries.leaves) === `${entries.root} 0`, "entries not published");
  for (const entry of proof.entries.data as readonly Inclusion[]) {
    must(rootFrom(entry, own.count) === `${own.root} 0`, "an entry is not in the published root");
    const { from, to, nano } = JSON.parse(entry.leaf);
    if (to.startsWith(`${account}:`)) change += BigInt(nano);
    if (from.startsWith(`${account}:`)) change -= BigInt(nano);
  }
}
const usd = (nano: bigint) => `$${Number(nano) / 1e9}`;
console.log(`${account} had ${usd(balance)} at the end of ${record.day}: the proof is valid.`);
console.log(`${proof.entries?.data.length ?? 0} entries changed the balance by ${usd(change)}.`);
console.log(`All accounts together had ${usd(BigInt(balances.nano))}.`);
