// Containers that a provider does not have: this gateway named them, for code that ran at another provider.

import { FOREIGN_CONTAINER } from "../canonical/tools/code-execution.ts";

export function isForeignContainer(id: string): boolean {
  return id.startsWith(FOREIGN_CONTAINER);
}
