// How much work waits in the store.

import { integer, type Reader } from "../../store/db.ts";

/** Counting stops here, so that the page stays fast when a queue is long. */
export const QUEUE_COUNT_MAX = 10_000;

const QUEUES = [
  ["Open calls with a stored hold", "from hold where process <> '' and lease is null"],
  ["Credit leases", "from hold where lease is not null"],
  ["Batches to finish", "from batch where ended_at is null"],
  ["Usage batches to roll up", "from usage_pending"],
  ["Webhook deliveries to send", "from webhook_delivery where status = 'pending'"],
  ["Background responses to finish", "from stored_response where status = 'in_progress'"],
  ["Auto top-ups to finish", "from top_up where open_for is not null"],
] as const;

export interface Queue {
  readonly name: string;
  /** At most `QUEUE_COUNT_MAX`. */
  readonly length: number;
}

export async function readQueues(reader: Reader): Promise<readonly Queue[]> {
  const queues: Queue[] = [];
  for (const [name, rows] of QUEUES) {
    const row = await reader.get(
      `select count(*) as length from (select 1 ${rows} limit ${QUEUE_COUNT_MAX}) as waiting`,
      [],
    );
    queues.push({ name, length: row === undefined ? 0 : integer(row, "length") });
  }
  return queues;
}
