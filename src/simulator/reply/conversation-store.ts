// Stored replies, for requests that go on from one by its id.

export interface Conversation {
  readonly id: string;
  /** Everything up to and including the reply, as the API writes it. */
  readonly items: readonly unknown[];
}

export interface ConversationStore {
  readonly save: (conversation: Conversation) => void;
  readonly find: (id: string) => readonly unknown[] | undefined;
  readonly clear: () => void;
}

export function createConversationStore(limit: number): ConversationStore {
  const conversations = new Map<string, readonly unknown[]>();
  return {
    save({ id, items }) {
      conversations.delete(id);
      conversations.set(id, items);
      for (const oldest of conversations.keys()) {
        if (conversations.size <= limit) break;
        conversations.delete(oldest);
      }
    },
    find: (id) => conversations.get(id),
    clear: () => conversations.clear(),
  };
}
