// Older models name no call: it is known by its name and its place. Such a call gets an id here, which is left out again
// on its way back.

const GENERATED_PREFIX = "pstg_";

export function mintCallId(replyId: string, choice: number, call: number): string {
  return `${GENERATED_PREFIX}${replyId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-24)}_${choice}_${call}`;
}

export function isGenerated(id: string): boolean {
  return id.startsWith(GENERATED_PREFIX);
}
