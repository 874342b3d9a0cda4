// The master secret, from which all other keys are derived. Outside development the operator sets it.

import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { randomBase62, type Secret, secret } from "../base/secret.ts";

const SECRET_CHARACTERS = 43;
const MIN_CHARACTERS = 32;

/** In development it is generated on the first start and kept in the data folder. */
export function loadMasterSecret(configured: Secret | undefined, dataDir: string): Secret {
  if (configured !== undefined) return configured;
  const file = path.join(dataDir, "secret");
  if (!existsSync(file)) {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    writeAtomically(file, randomBase62(SECRET_CHARACTERS));
  }
  const stored = readFileSync(file, "utf8").trim();
  // With an empty secret anyone could forge keys.
  if (stored.length < MIN_CHARACTERS)
    throw new Error(
      `${file} is empty or truncated: restore the secret, or delete the file, which invalidates every API key created with it`,
    );
  return secret(stored);
}

// A full disk or a power loss must not leave an empty file.
function writeAtomically(file: string, content: string): void {
  const temporaryFile = `${file}.${process.pid}`;
  try {
    const handle = openSync(temporaryFile, "w", 0o600);
    writeFileSync(handle, content);
    fsyncSync(handle);
    closeSync(handle);
    linkIfAbsent(temporaryFile, file);
  } finally {
    rmSync(temporaryFile, { force: true });
  }
}

// Another process may have created the file first. Some file systems have no hard links.
function linkIfAbsent(temporaryFile: string, file: string): void {
  try {
    linkSync(temporaryFile, file);
  } catch {
    if (!existsSync(file)) renameSync(temporaryFile, file);
  }
}
