// The secret that every other key is derived from. Outside of development the operator sets it.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { randomBase62, type Secret, secret } from "./base/secret.ts";

const SECRET_CHARACTERS = 43;

/** In development it is made on the first start and kept beside the data that it protects. */
export function masterSecret(set: Secret | undefined, dataDir: string): Secret {
  if (set !== undefined) return set;
  const file = path.join(dataDir, "secret");
  if (!existsSync(file)) {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    writeFileSync(file, randomBase62(SECRET_CHARACTERS), { mode: 0o600, flag: "wx" });
  }
  return secret(readFileSync(file, "utf8").trim());
}
