// Keys that were narrowed without a request. At its first use, a derived key becomes a child of the key that it narrows: its
// limit is set aside from the parent's, so the chain as a whole never spends more, and all that counts, stops or revokes
// keys does so for it.

import { decrypt, fingerprints, type MasterSecret } from "../base/crypto/encryption.ts";
import { MODEL_CALL_SCOPES } from "../http/scopes.ts";
import { type Db, text, textOrNull, type Tx } from "../store/db.ts";
import { createKeyForCaller } from "./delegation.ts";
import { type DerivedKeyText, isDerivedKey, type KeyBlock, readDerivedKey } from "./derived-key.ts";
import { chainSecretKey, keyPepper } from "./key-hashes.ts";
import type { Keys, KeysDeps } from "./keys.ts";
import { findLiveKey, type LiveKey } from "./live-keys.ts";

/** The same keys, with derived ones created when they are first used. */
export function withDerivedKeys(keys: Keys, deps: KeysDeps): Keys {
  return {
    ...keys,
    find: (raw, now, source) => {
      const found = keys.find(raw, now, source);
      return isDerivedKey(deps.prefix, raw)
        ? findDerivedKey(keys, deps, { raw, now, found })
        : found;
    },
  };
}

interface Lookup {
  readonly raw: string;
  readonly now: number;
  readonly found: ReturnType<Keys["find"]>;
}

async function findDerivedKey(
  keys: Keys,
  { db, master, prefix }: KeysDeps,
  { raw, now, found }: Lookup,
): Promise<LiveKey | undefined> {
  const live = await found;
  if (live !== undefined) return live;
  const read = readDerivedKey(prefix, raw);
  if (read === undefined) return undefined;
  const texts = await verifyChain(db, master, read);
  if (texts === undefined) return undefined;
  const hasKey = await db.write((tx) => createChain(tx, keys, { master, read, texts, now }));
  return hasKey ? await keys.find(raw, now, "store") : undefined;
}

async function verifyChain(
  db: Db,
  master: MasterSecret,
  { reference, verify }: DerivedKeyText,
): Promise<readonly string[] | undefined> {
  const row = await db.get("select chain_secret from api_key where chain_reference = ?", [
    reference,
  ]);
  const sealed = row && textOrNull(row, "chain_secret");
  if (sealed === undefined || sealed === null) return undefined;
  const secret = openChainSecret(master, reference, sealed);
  return secret === undefined ? undefined : verify(secret);
}

/** Undefined if the master secret was replaced twice since the key above was last used. */
function openChainSecret(
  master: MasterSecret,
  reference: string,
  sealed: string,
): string | undefined {
  try {
    return decrypt(chainSecretKey(master), reference, sealed);
  } catch {
    return undefined;
  }
}

interface Chain {
  readonly master: MasterSecret;
  readonly read: DerivedKeyText;
  readonly texts: readonly string[];
  readonly now: number;
}

/** False if a key of the chain has ended: it is never created a second time. */
async function createChain(
  tx: Tx,
  keys: Keys,
  { master, read: { reference, blocks }, texts, now }: Chain,
): Promise<boolean> {
  const findRoot = () =>
    tx.get("select id, account_id from api_key where chain_reference = ?", [reference]);
  const found = await findRoot();
  if (found === undefined) return false;
  const accountId = text(found, "account_id");
  // Two first uses at once must not both create it.
  await tx.lockMany("account", "id", [accountId]);
  // A rotation that this has waited for has ended the chain.
  const root = await findRoot();
  if (root === undefined) return false;
  let parentId = text(root, "id");
  const ancestors: string[] = [];
  for (const [index, raw] of texts.entries()) {
    const parent = await findLiveKey(tx, parentId, now);
    const block = blocks[index];
    if (parent === undefined || block === undefined) return false;
    if ((block.expiresAt ?? Infinity) <= now) return false;
    ancestors.push(parentId);
    const existing = await findByText(tx, master, raw);
    if (existing !== undefined) {
      parentId = existing;
      continue;
    }
    const actor = { type: "key", id: parentId } as const;
    const act = { accountId, actor, network: null, now };
    const settings = settingsOf(block, parent);
    const derived = { raw, ancestors: ancestors.join(" ") };
    const creation = { settings: { ...settings, derived }, callerId: parentId, isNarrowing: true };
    parentId = (await createKeyForCaller(tx, act, keys, creation)).key.id;
  }
  return (await findLiveKey(tx, parentId, now)) !== undefined;
}

async function findByText(tx: Tx, master: MasterSecret, raw: string): Promise<string | undefined> {
  for (const hash of fingerprints(keyPepper(master), raw)) {
    const row = await tx.get("select id from api_key where hash = ?", [hash]);
    if (row !== undefined) return text(row, "id");
  }
  return undefined;
}

function settingsOf(block: KeyBlock, { granted, expiresAt: parentExpiresAt }: LiveKey) {
  const expiresAt = Math.min(block.expiresAt ?? Infinity, parentExpiresAt ?? Infinity);
  return {
    name: block.id ?? "derived key",
    limit: block.limit ?? null,
    expiresAt: expiresAt === Infinity ? null : expiresAt,
    // It cannot create keys, which would outlive their ancestors.
    scopes: block.scopes ?? MODEL_CALL_SCOPES.filter((scope) => granted.has(scope)),
    policy: block.policy,
  };
}
