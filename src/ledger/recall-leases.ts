// Recalls credit leases: before credits are given to others, and whenever what calls may do is restricted. A recall ends, and
// the write that contains it resolves, when no process decides holds on the recalled leases any more.

import { integer, type Reader, type Row, text, type Tx } from "../store/db.ts";
import { LEASE_STATE } from "./credit-lease.ts";

/** A process decides holds on a lease for so long after it last read the row. */
export const CONFIRMED_MS = 500;
/** For the time between the clocks' readings and the commit. */
const MARGIN_MS = 50;
const POLL_MS = 20;
/** Most processes have few leases. */
const PAGES = [4, 50] as const;
const PAGE_MAX = 50;

/** Locks the wallet: a lease that is being taken is recalled too, or sees the change. */
export async function recallLeases(tx: Tx, accountId: string): Promise<void> {
  if (tx.kind === "sqlite") return;
  await tx.lockMany("wallet", "account_id", [accountId]);
  const rows = await tx.all(
    `update hold set lease = ${LEASE_STATE.recalled} where account_id = ?
     and lease in (${LEASE_STATE.open}, ${LEASE_STATE.recalled}) returning id`,
    [accountId],
  );
  if (rows.length === 0) return;
  const ids = rows.slice(0, PAGE_MAX).map((row) => text(row, "id"));
  tx.afterCommit((reader) => waitUntilClosed(reader, accountId, ids));
}

async function waitUntilClosed(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
): Promise<void> {
  const startedAt = performance.now();
  let areOpen = true;
  while (areOpen && performance.now() - startedAt < CONFIRMED_MS + MARGIN_MS) {
    // A store that does not answer is asked again: the time ends every lease.
    areOpen = await readLeaseStates(reader, [[accountId, ids]]).then(
      (states) => [...states.values()].includes(LEASE_STATE.recalled),
      () => true,
    );
    if (areOpen) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** The states of those of the leases that have a row. */
export async function readLeaseStates(
  reader: Reader,
  leases: Iterable<readonly [accountId: string, ids: readonly string[]]>,
): Promise<ReadonlyMap<string, number>> {
  const keys = Array.from(leases, ([accountId, ids]) => ids.map((id) => [accountId, id])).flat();
  const pages = Array.from({ length: Math.ceil(keys.length / PAGE_MAX) }, (_, page) =>
    keys.slice(page * PAGE_MAX, (page + 1) * PAGE_MAX),
  );
  const rows = await Promise.all(pages.map((page) => readPage(reader, page)));
  return new Map(rows.flat().map((row) => [text(row, "id"), integer(row, "lease")]));
}

/** Pages have two sizes, so that there are two statements. Their last key is repeated: an empty one would name another node. */
function readPage(reader: Reader, page: readonly (readonly string[])[]): Promise<readonly Row[]> {
  const size = PAGES.find((max) => page.length <= max) ?? PAGE_MAX;
  const column = (index: number): string[] =>
    Array.from({ length: size }, (_, row) => (page[row] ?? page.at(-1))?.[index] ?? "");
  return reader.all(READ_PAGE[size], [...column(0), ...column(1)]);
}

function readPageOf(size: number): string {
  const parameters = Array.from({ length: size }, () => "?").join(", ");
  return `select id, lease from hold
  where account_id in (${parameters}) and id in (${parameters}) and lease is not null`;
}

const READ_PAGE = { [PAGES[0]]: readPageOf(PAGES[0]), [PAGES[1]]: readPageOf(PAGES[1]) };
