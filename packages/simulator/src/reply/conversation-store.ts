// Stored conversations, for requests with `previous_response_id`.

export interface Conversation {
  readonly id: string;
  /** All items up to and including the reply, in the API's format. */
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
