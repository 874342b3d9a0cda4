// The path of the page of a key.

import { workspacePath } from "../console-layout.tsx";

export function keyPath(accountId: string, keyId: string): string {
  return `${workspacePath(accountId, "/keys")}/${keyId}`;
}
