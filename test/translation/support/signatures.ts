// What each wire calls the opaque data that a provider expects back unchanged.

import type { Wire } from "./harness.ts";

const SIGNATURE_PATTERNS: Readonly<Record<Wire, RegExp>> = {
  chat: /$^/g,
  responses: /"encrypted_content":"([^"]+)"/g,
  messages: /"(?:signature|data)":"([^"]+)"/g,
  gemini: /"thoughtSignature":"([^"]+)"/g,
  converse: /"(?:signature|redactedContent)":"([^"]+)"/g,
};

/** Signatures and encrypted reasoning, each once, in order. */
export function signaturesIn(wire: Wire, text: string): readonly string[] {
  const all = [...text.matchAll(SIGNATURE_PATTERNS[wire])].map((match) => match[1] ?? "");
  return [...new Set(all)];
}
