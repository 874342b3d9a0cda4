// The reply of an endpoint without a conversation.

import type { EmbeddingReply } from "./embeddings.ts";
import type { Frame } from "./simulated-wire.ts";

export interface SimpleReply extends EmbeddingReply {
  readonly outputTokens?: number;
  /** Sent in place of `body`. */
  readonly stream?: { readonly frames: readonly Frame[]; readonly contentType: string };
}
