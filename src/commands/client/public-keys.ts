// The public keys with which commands verify what the gateway signed: from the gateway, or from a saved copy.

import { readFileSync } from "node:fs";
import { arrayIn, type JsonObject, objectIn, parseObject, stringIn } from "../../base/json.ts";
import { type CliEnv, type ParsedArgs, stringFlag } from "../command.ts";
import { request } from "./gateway-client.ts";
import { gatewayUrl } from "./gateway-url.ts";

const KEYS_PATH = "/.well-known/jwks.json";

export const KEYS_FLAG = stringFlag("<file>", `A saved copy of ${KEYS_PATH}.`);

/** By their ids. */
export async function readPublicKeys(
  args: ParsedArgs,
  cli: CliEnv,
): Promise<ReadonlyMap<string, string>> {
  return publicKeysIn(await readKeySet(args, cli));
}

async function readKeySet(args: ParsedArgs, cli: CliEnv): Promise<JsonObject> {
  const file = args.value("keys");
  if (file === undefined) return await request(gatewayUrl(args, cli), `GET ${KEYS_PATH}`);
  const keySet = parseObject(readTextFile(file));
  if (keySet === undefined) throw new Error(`${file} is not a JSON Web Key Set.`);
  return keySet;
}

function publicKeysIn(keySet: JsonObject): ReadonlyMap<string, string> {
  const keys = new Map<string, string>();
  for (const key of arrayIn(keySet["keys"]).map(objectIn)) {
    const [id, x] = [stringIn(key?.["kid"]), stringIn(key?.["x"])];
    if (id !== undefined && x !== undefined && key?.["crv"] === "Ed25519") keys.set(id, x);
  }
  return keys;
}

export function readTextFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new Error(`${file} cannot be read: name a file that exists.`, { cause });
  }
}
