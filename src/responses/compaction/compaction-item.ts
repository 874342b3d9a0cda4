// Compaction items: the summary of a conversation, encrypted for one account. Any model can continue from them, because the
// gateway opens them before it sends a request.

import {
  deriveKey,
  decrypt,
  encrypt,
  type DerivedKey,
  type MasterSecret,
} from "../../base/crypto/encryption.ts";
import { invalid } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";

/** Items of providers do not begin like this. */
const PREFIX = "pst-compaction-1.";

const SUMMARY_PREFIX =
  "The earlier part of this conversation was replaced by the following summary. Continue from it.";

export function deriveCompactionKey(master: MasterSecret): DerivedKey {
  return deriveKey(master, "compaction/v1");
}

export function sealSummary(key: DerivedKey, accountId: string, summary: string): string {
  return PREFIX + encrypt(key, associatedData(accountId), summary);
}

export function isSealedCompaction(item: unknown): item is JsonObject {
  if (!isObject(item) || item["type"] !== "compaction") return false;
  const content = item["encrypted_content"];
  return typeof content === "string" && content.startsWith(PREFIX);
}

/** The input with each compaction item replaced by a message with its summary; undefined if there is none. */
export function openCompactions(
  key: DerivedKey,
  accountId: string,
  input: unknown,
): readonly unknown[] | undefined {
  if (!Array.isArray(input) || !input.some(isSealedCompaction)) return undefined;
  return input.map((item: unknown, index) =>
    isSealedCompaction(item) ? openItem(key, accountId, { item, index }) : item,
  );
}

function openItem(
  key: DerivedKey,
  accountId: string,
  { item, index }: { readonly item: JsonObject; readonly index: number },
): JsonObject {
  try {
    const sealed = String(item["encrypted_content"]).slice(PREFIX.length);
    const summary = decrypt(key, associatedData(accountId), sealed);
    return { type: "message", role: "user", content: `${SUMMARY_PREFIX}\n\n${summary}` };
  } catch {
    throw invalid(
      `input[${index}].encrypted_content`,
      `\`input[${index}].encrypted_content\` cannot be decrypted: it was changed, or belongs to another account or gateway. Send the turns that it replaced, or compact them again with POST /v1/responses/compact.`,
    );
  }
}

function associatedData(accountId: string): string {
  return `compaction/v1|${accountId}`;
}
