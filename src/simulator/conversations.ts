// Stored replies, for requests that go on from one by its id.

export interface Conversation {
  readonly id: string;
  /** Everything up to and including the reply, as the API writes it. */
  readonly items: readonly unknown[];
}

export interface Conversations {
  readonly keep: (conversation: Conversation) => void;
  readonly find: (id: string) => readonly unknown[] | undefined;
  readonly clear: () => void;
}

export function createConversations(limit: number): Conversations {
  const kept = new Map<string, readonly unknown[]>();
  return {
    keep({ id, items }) {
      kept.delete(id);
      kept.set(id, items);
      for (const oldest of kept.keys()) {
        if (kept.size <= limit) break;
        kept.delete(oldest);
      }
    },
    find: (id) => kept.get(id),
    clear: () => kept.clear(),
  };
}
