// What a claim page of an account would show now, for a confirmation without a page.

import { digestOfAll, readKeysAndSetup } from "../../src/claims/shown-state.ts";
import type { Reader } from "../../src/store/db.ts";

export async function shownNow(reader: Reader, accountId: string, now: number): Promise<string> {
  return digestOfAll(await readKeysAndSetup(reader, accountId, now));
}
