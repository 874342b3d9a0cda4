// What a batch is decided on: the rows that its operations concern, locked until it is committed. Wallets come first, then
// spenders, then holds, each in the order of their keys: no two batches can wait for each other in a circle.

import { type Row, text, type Tx } from "../store/db.ts";
import type { KeyRules, OpenHold } from "./decide.ts";
import { marksOf } from "./marks.ts";
import {
  type KeptSpender,
  type KeptWallet,
  toKeyRules,
  toOpenHold,
  toSpender,
  toWallet,
} from "./rows.ts";
import { withYoung, withYoungCalls, type YoungHolds } from "./young-holds.ts";

export interface State {
  readonly wallets: ReadonlyMap<string, KeptWallet>;
  readonly spenders: ReadonlyMap<string, KeptSpender>;
  readonly keys: ReadonlyMap<string, KeyRules>;
  readonly holds: Map<string, OpenHold>;
  /** What was held before the sweeper came. */
  readonly swept: Map<string, OpenHold>;
  readonly young: YoungHolds | undefined;
}

/** What an operation concerns. */
export interface Concerning {
  readonly kind: "hold" | "settle";
  readonly request: { readonly id: string; readonly accountId: string; readonly keyId: string };
}

export async function lock(
  tx: Tx,
  operations: readonly Concerning[],
  young: YoungHolds | undefined,
): Promise<State> {
  const accountIds = new Set<string>();
  const keyIds = new Set<string>();
  const holdIds: string[] = [];
  const holds = new Map<string, OpenHold>();
  for (const { kind, request } of operations) {
    const { id, accountId, keyId } = request;
    accountIds.add(accountId);
    keyIds.add(keyId);
    const aged = young?.holds.get(id);
    if (aged !== undefined) holds.set(id, aged.hold);
    else if (young === undefined || kind === "settle" || young.written.has(id)) holdIds.push(id);
  }
  const known = young?.known;
  const find = (table: string, key: string, ids: readonly string[]): Promise<readonly Row[]> =>
    ids.length === 0 ? NONE : tx.lockMany(table, key, ids);
  const unknownKeys = unknown(keyIds, known?.keys);
  // PostgreSQL runs these one after the other on one connection: sent together, they cost one round trip.
  const [wallets, spenders, open, swept, keys] = await Promise.all([
    find("wallet", "account_id", unknown(accountIds, known?.wallets)),
    find("spender", "key_id", unknown(keyIds, known?.spenders)),
    find("hold", "id", holdIds),
    find("swept_hold", "id", holdIds),
    unknownKeys.length === 0 ? NONE : tx.readMany("api_key", "id", unknownKeys),
  ]);
  for (const row of open) holds.set(text(row, "id"), toOpenHold(row));
  return {
    wallets: together(accountIds, known?.wallets, wallets, (row) => {
      const id = text(row, "account_id");
      return [id, withYoung(young?.wallets.get(id), { ...toWallet(row), ...marksOf(row) })];
    }),
    spenders: together(keyIds, known?.spenders, spenders, (row) => {
      const id = text(row, "key_id");
      return [id, withYoungCalls(young?.spenders.get(id), toSpender(row))];
    }),
    keys: together(keyIds, known?.keys, keys, (row) => [text(row, "id"), toKeyRules(row)]),
    holds,
    swept: new Map(swept.map((row) => [text(row, "id"), toOpenHold(row)])),
    young,
  };
}

const NONE: Promise<readonly Row[]> = Promise.resolve([]);

function unknown(
  ids: ReadonlySet<string>,
  known: ReadonlyMap<string, unknown> | undefined,
): string[] {
  return known === undefined ? [...ids] : [...ids].filter((id) => !known.has(id));
}

/** What was known with what was read, which is known from here on. */
function together<T>(
  ids: ReadonlySet<string>,
  known: Map<string, T> | undefined,
  rows: readonly Row[],
  read: (row: Row) => readonly [id: string, T],
): ReadonlyMap<string, T> {
  if (known === undefined) return new Map(rows.map(read));
  for (const row of rows) known.set(...read(row));
  const found = new Map<string, T>();
  for (const id of ids) {
    const one = known.get(id);
    if (one !== undefined) found.set(id, one);
  }
  return found;
}
