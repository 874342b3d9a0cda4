// The file with the API key of a gateway, where auth.md tells agents to keep it: `~/.postern/<host>.json`, readable by the
// user alone.

import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { isObject, parseObject, stringIn } from "../../base/json.ts";

const PRIVATE_FILE = 0o600;
const PRIVATE_FOLDER = 0o700;

export function keyFolder(home: string): string {
  return path.join(home, ".postern");
}

/** With an id, the file of a further account at that gateway. */
export function keyFilePath(home: string, url: string, accountId?: string): string {
  const host = new URL(url).host.replaceAll(":", "-");
  const name = accountId === undefined ? host : `${host}-${accountId}`;
  return path.join(keyFolder(home), `${name}.json`);
}

export function readKey(home: string, url: string, accountId?: string): string | undefined {
  const text = readText(keyFilePath(home, url, accountId));
  const file = text === undefined ? undefined : parseObject(text);
  return isObject(file) ? stringIn(file["api_key"]) : undefined;
}

/** `created` is the response of `POST /v1/accounts`. */
export function saveKey(home: string, url: string, created: unknown, accountId?: string): string {
  const file = keyFilePath(home, url, accountId);
  writePrivate(file, `${JSON.stringify(created, null, 2)}\n`);
  return file;
}

/** Replaces the file in one step, so that no reader sees half of it. A symbolic link stays one: its target is replaced. */
export function writePrivate(file: string, text: string): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: PRIVATE_FOLDER });
  const target = existsSync(file) ? realpathSync(file) : file;
  const temporary = `${target}.${process.pid}.tmp`;
  writeFileSync(temporary, text, { mode: PRIVATE_FILE });
  chmodSync(temporary, PRIVATE_FILE);
  renameSync(temporary, target);
}

export function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (isObject(error) && error["code"] === "ENOENT") return undefined;
    throw error;
  }
}
