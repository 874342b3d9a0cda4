// Older models give tool calls no id and match results by name and order. The gateway generates an id for the caller, and
// omits it again when the call comes back.

const GENERATED_PREFIX = "pstg_";

export function mintCallId(replyId: string, choice: number, call: number): string {
  return `${GENERATED_PREFIX}${replyId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-24)}_${choice}_${call}`;
}

export function isGenerated(id: string): boolean {
  return id.startsWith(GENERATED_PREFIX);
}
