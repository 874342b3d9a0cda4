// One group commit per account. On a distributed store, a transaction then changes rows of one account, which are on one
// node, and a node that is down delays only its own accounts.

import type { GroupCommit } from "./group-commit.ts";

export function createAccountQueues<Operation, Outcome>(
  createQueue: () => GroupCommit<Operation, Outcome>,
  accountOf: (operation: Operation) => string,
): GroupCommit<Operation, Outcome> {
  const queues = new Map<string, GroupCommit<Operation, Outcome>>();
  const removeWhenIdle = async (
    accountId: string,
    queue: GroupCommit<Operation, Outcome>,
  ): Promise<void> => {
    do await queue.idle();
    while (queue.queueDepth() > 0);
    queues.delete(accountId);
  };
  return {
    submit: (operation, admission) => {
      const accountId = accountOf(operation);
      const existing = queues.get(accountId);
      if (existing !== undefined) return existing.submit(operation, admission);
      const queue = createQueue();
      queues.set(accountId, queue);
      const outcome = queue.submit(operation, admission);
      void removeWhenIdle(accountId, queue);
      return outcome;
    },
    queueDepth: () => queues.values().reduce((sum, queue) => sum + queue.queueDepth(), 0),
    isFailing: () => queues.values().some((queue) => queue.isFailing()),
    idle: async () => {
      while (queues.size > 0) await Promise.all([...queues.values()].map((queue) => queue.idle()));
    },
  };
}
