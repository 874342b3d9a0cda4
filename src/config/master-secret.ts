// The secret that every other key is derived from. Outside of development the operator sets it.

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
/** As many as a secret that is set must have. */
const MIN_CHARACTERS = 32;

/** In development it is made on the first start and kept beside the data that it protects. */
export function loadMasterSecret(configured: Secret | undefined, dataDir: string): Secret {
  if (configured !== undefined) return configured;
  const file = path.join(dataDir, "secret");
  if (!existsSync(file)) {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    writeAtomically(file, randomBase62(SECRET_CHARACTERS));
  }
  const stored = readFileSync(file, "utf8").trim();
  // Keys that were made under nothing could be made by anybody.
  if (stored.length < MIN_CHARACTERS)
    throw new Error(
      `${file} is empty, or was cut: put the secret back, or delete the file, which voids every key that was made with it`,
    );
  return secret(stored);
}

// A disk that is full, or a machine that loses its power, must not leave a name with nothing in it.
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

// Another process on the same folder may have been first; and some disks have no second names for a file.
function linkIfAbsent(temporaryFile: string, file: string): void {
  try {
    linkSync(temporaryFile, file);
  } catch {
    if (!existsSync(file)) renameSync(temporaryFile, file);
  }
}
