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
import { z } from "zod";
import type { MasterSecret } from "../base/crypto/encryption.ts";
import { randomBase62, type Secret, secret } from "../base/crypto/secret.ts";
import { settings } from "./setting-schemas.ts";

const SECRET_CHARACTERS = 43;
const MIN_CHARACTERS = 32;

const masterSecret = z
  .string()
  .min(
    MIN_CHARACTERS,
    `must have at least ${MIN_CHARACTERS} characters; generate one with: openssl rand -base64 33`,
  )
  .optional();

export const SECRET_SETTINGS = settings({
  POSTERN_SECRET: [
    masterSecret,
    "generated in the data folder in development",
    "The master secret, at least 32 characters. If you lose it, every API key stops working.",
  ],
  POSTERN_SECRET_PREVIOUS: [
    masterSecret,
    "",
    "The previous master secret while you rotate it, see `docs/site/operations.md`. Both are accepted until you remove it.",
  ],
});

export interface ConfiguredSecrets {
  readonly secret?: Secret | undefined;
  /** Set while the secret is rotated. */
  readonly previousSecret?: Secret | undefined;
}

/** In development it is generated on the first start and kept in the data folder. */
export function loadMasterSecret(configured: ConfiguredSecrets, dataDir: string): MasterSecret {
  const { secret: current, previousSecret: previous } = configured;
  if (current !== undefined) return { ...current, previous };
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
