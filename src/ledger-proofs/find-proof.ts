// Makes the proof of an account: its two balance leaves and its entries of a day, with their paths to the signed log.

import type { MasterSecret } from "../base/crypto/encryption.ts";
import { Fault } from "../base/fault.ts";
import { bytesOrNull, type Db } from "../store/db.ts";
import { accountSecrets, balanceLeaf, entriesLeaf } from "./account-leaves.ts";
import { periodOf, readEntries } from "./day-entries.ts";
import { findLeaf, type FoundLeaf, pageOf } from "./leaf-pages.ts";
import { inclusionPaths, PLAIN, SUMS, type Tree } from "./merkle-tree.ts";
import {
  parseRecord,
  type PlainInclusion,
  plainPath,
  type SumInclusion,
  sumPath,
} from "./proof-format.ts";
import { INDEX_PAGE, PROOF_DAYS, proofKeys } from "./publish-day.ts";
import type { PublishedLog } from "./published-log.ts";

/** Entries of a proof. */
export const ENTRIES_MAX = 1_000;

export interface LedgerProof {
  readonly object: "ledger_proof";
  readonly account: string;
  readonly day: string;
  readonly head: string;
  readonly record: PlainInclusion;
  readonly balance_nano: string;
  readonly balance: readonly SumInclusion[];
  /** Null for a day without entries of the account. */
  readonly entries: (PlainInclusion & EntryPage) | null;
}

interface EntryPage {
  readonly data: readonly PlainInclusion[];
  readonly has_more: boolean;
  readonly next_cursor: string | null;
}

export interface ProofDeps {
  readonly db: Db;
  readonly master: MasterSecret;
  readonly log: PublishedLog;
}

export interface ProofRequest {
  readonly account: string;
  /** The last one by default. */
  readonly day?: string | undefined;
  readonly limit: number;
  /** The number of entries before the page. */
  readonly offset: number;
}

export async function findProof(deps: ProofDeps, request: ProofRequest): Promise<LedgerProof> {
  const { db, master, log } = deps;
  const { account } = request;
  const days = await log.read();
  const size = days.length;
  const at =
    request.day === undefined ? size - 1 : days.findIndex(({ day }) => day === request.day);
  const logged = days[at];
  if (logged === undefined) throw noProofFault(request.day, days.at(-1)?.day);
  const { day, record } = logged;
  const { balances, entries } = parseRecord(record);
  for (const key of proofKeys(master)) {
    const secrets = accountSecrets(key, { day, account });
    const found = await Promise.all(
      secrets.positions.map((position) =>
        readLeaf(db, SUMS, { day, root: balances.root }, position),
      ),
    );
    const shares = found.flatMap((leaf, share) => {
      if (leaf === undefined) return [];
      const nano = leaf.leaf.sum;
      const { text, node } = balanceLeaf({ day, account }, secrets, { share, nano });
      return node.hash.equals(leaf.leaf.hash)
        ? [{ nano, leaf: text, index: leaf.index, path: sumPath(leaf.path) }]
        : [];
    });
    if (shares.length < secrets.positions.length) continue;
    return {
      object: "ledger_proof",
      account,
      day,
      head: log.headOf(size),
      record: { leaf: record, index: at, path: log.inclusion(at, size) },
      balance_nano: String(shares.reduce((sum, { nano }) => sum + nano, 0n)),
      balance: shares.map(({ leaf, index, path }) => ({ leaf, index, path })),
      entries: await findEntries(db, { ...request, day, root: entries.root, secrets }),
    };
  }
  throw noProofFault(request.day, days.at(-1)?.day);
}

interface EntriesRequest extends ProofRequest {
  readonly day: string;
  readonly root: string;
  readonly secrets: ReturnType<typeof accountSecrets>;
}

async function findEntries(
  db: Db,
  { account, day, root, secrets, limit, offset }: EntriesRequest,
): Promise<LedgerProof["entries"]> {
  const found = await readLeaf(db, PLAIN, { day, root }, secrets.entriesPosition);
  if (found === undefined) return null;
  const owner = { sql: "account_id = ?", params: [account] };
  const entries = (await readEntries(db, owner, periodOf(day))).get(account) ?? [];
  const { text, node, entries: leaves } = entriesLeaf({ day, account }, secrets, entries);
  if (!node.hash.equals(found.leaf.hash))
    throw new Fault("not_found", `the entries of ${account} on ${day} are not those of the root`, {
      message: `An entry of this account was posted after the record of ${day}, so its entries of that day cannot be proven. \`difference_nano\` of the next record counts it. Ask for another day.`,
      param: "day",
    });
  const pathOf = inclusionPaths(
    PLAIN,
    leaves.map((leaf) => leaf.node),
  );
  const end = offset + limit;
  return {
    leaf: text,
    index: found.index,
    path: plainPath(found.path),
    data: leaves.slice(offset, end).map((leaf, at) => ({
      leaf: leaf.text,
      index: offset + at,
      path: plainPath(pathOf(offset + at)),
    })),
    has_more: end < leaves.length,
    next_cursor: end < leaves.length ? String(end) : null,
  };
}

async function readLeaf(
  db: Db,
  tree: Tree,
  { day, root }: { readonly day: string; readonly root: string },
  position: Buffer,
): Promise<FoundLeaf | undefined> {
  const read = async (page: number): Promise<Uint8Array | undefined> => {
    const row = await db.get(
      "select content from ledger_proof_page where day = ? and root = ? and page = ?",
      [day, root, page],
    );
    return (row && bytesOrNull(row, "content")) ?? undefined;
  };
  const index = await read(INDEX_PAGE);
  if (index === undefined || index.length === 0) return undefined;
  const page = pageOf(index, position);
  const content = await read(page);
  return content && findLeaf(tree, { index, page, content }, position);
}

function noProofFault(day: string | undefined, last: string | undefined): Fault {
  const message =
    last === undefined
      ? "No roots of the ledger have been published yet. The first ones follow a day at whose end the gateway had accounts, at 01:30 UTC."
      : `There is no proof of this account for ${day ?? last}. Proofs are kept for ${PROOF_DAYS} days, and begin with the UTC day on which the account was created; the last published day is ${last}.`;
  return new Fault("not_found", "no ledger proof", {
    message,
    param: "day",
    next: [{ method: "GET", url: "/v1/ledger/roots", why: "List the days that were published." }],
  });
}
