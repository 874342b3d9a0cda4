// The accounts of `postern mcp`. Their keys stay in private files: the client's model sees the id of a key, and chooses between
// several accounts by the id of the account.

import { existsSync, renameSync } from "node:fs";
import {
  arrayIn,
  isObject,
  type JsonObject,
  objectIn,
  parseObject,
  stringIn,
} from "../../base/json.ts";
import { request } from "./gateway-client.ts";
import { keyFilePath, readKey, readText, saveKey } from "./key-file.ts";

/** The argument that chooses an account. */
const ACCOUNT_ARGUMENT = "account";
const KEY_ARGUMENT = "api_key";
/** Checked, because an account id becomes part of a file name. */
const ACCOUNT_ID = /^acct_[a-z0-9]{1,40}$/;

export interface KeyFiles {
  readonly home: string;
  readonly url: string;
}

const INSTRUCTIONS =
  "Postern is an AI gateway. If a tool says that the key is missing, call create_account: its key is kept in a private file, and the other tools use it. Then call send_message with a model from list_models. Ask your human before you use their email address or spend money, and never open their links yourself. Every error has a code and `next` steps.";
const CREATE_ACCOUNT =
  "Creates a funded account, without a human. Its key is kept in a private file and used by the other tools. Only the first account is used by default: pass the id of another as `account`.";

/** What the client reads of a result: tools without keys as arguments. */
export function presentResult(result: JsonObject): JsonObject {
  const { instructions, tools } = result;
  return {
    ...result,
    ...(typeof instructions === "string" ? { instructions: INSTRUCTIONS } : {}),
    ...(Array.isArray(tools) ? { tools: tools.filter(isObject).map(presentTool) } : {}),
  };
}

function presentTool(tool: JsonObject): JsonObject {
  const input = objectIn(tool["inputSchema"]) ?? {};
  const { [KEY_ARGUMENT]: key, ...properties } = objectIn(input["properties"]) ?? {};
  const account = {
    type: "string",
    description: "The id of an account that create_account created. Default: the first.",
  };
  const listed =
    key === undefined
      ? tool
      : {
          ...tool,
          inputSchema: { ...input, properties: { ...properties, [ACCOUNT_ARGUMENT]: account } },
        };
  if (tool["name"] !== "create_account") return listed;
  const output = objectIn(tool["outputSchema"]) ?? {};
  const { [KEY_ARGUMENT]: _key, ...members } = objectIn(output["properties"]) ?? {};
  const text = { type: "string" };
  return {
    ...listed,
    description: CREATE_ACCOUNT,
    outputSchema: {
      ...output,
      properties: { ...members, key_id: text, key_file: text },
      required: arrayIn(output["required"]).filter((name) => name !== KEY_ARGUMENT),
    },
  };
}

export interface ChosenAccount {
  /** Undefined for that of the connection. */
  readonly key?: string;
  /** The message without the argument. */
  readonly message: JsonObject;
}

/** Undefined if there is no key of the account that the arguments name. */
export function chooseAccount(files: KeyFiles, message: JsonObject): ChosenAccount | undefined {
  const params = objectIn(message["params"]) ?? {};
  const { [ACCOUNT_ARGUMENT]: account, ...args } = objectIn(params["arguments"]) ?? {};
  if (message["method"] !== "tools/call" || account === undefined || account === null)
    return { message };
  const key = typeof account === "string" ? findKey(files, account) : undefined;
  if (key === undefined) return undefined;
  return { key, message: { ...message, params: { ...params, arguments: args } } };
}

function findKey({ home, url }: KeyFiles, accountId: string): string | undefined {
  if (!ACCOUNT_ID.test(accountId)) return undefined;
  return accountIn(keyFilePath(home, url)) === accountId
    ? readKey(home, url)
    : readKey(home, url, accountId);
}

/**
 * Saves the key of a new account. It becomes the first one if there was none, or if the first one's key no longer works; that
 * file is kept under the id of its account. Throws if the key cannot be saved.
 */
export function keepAccount(
  { home, url }: KeyFiles,
  created: JsonObject,
  hasWorkingKey: boolean,
): string {
  const accountId = stringIn(objectIn(created["account"])?.["id"]) ?? "";
  if (!ACCOUNT_ID.test(accountId)) throw new Error("the account has no id");
  const first = keyFilePath(home, url);
  if (hasWorkingKey && accountIn(first) !== accountId)
    return saveKey(home, url, created, accountId);
  const former = accountIn(first);
  if (existsSync(first) && former !== accountId)
    renameSync(first, keyFilePath(home, url, former ?? `former-${Date.now()}`));
  return saveKey(home, url, created);
}

/** The result of create_account without the key. */
export async function presentAccount(
  url: string,
  created: JsonObject,
  file: string,
): Promise<JsonObject> {
  const { [KEY_ARGUMENT]: key, ...shown } = created;
  const own = await request(url, "GET /v1/keys/self", { key: stringIn(key) }).catch(
    () => undefined,
  );
  const id = stringIn(own?.["id"]);
  const structuredContent = {
    ...shown,
    ...(id === undefined ? {} : { key_id: id }),
    key_file: file,
  };
  return {
    content: [{ type: "text", text: JSON.stringify(structuredContent) }],
    structuredContent,
  };
}

function accountIn(file: string): string | undefined {
  const text = readText(file);
  const saved = text === undefined ? undefined : parseObject(text);
  const id = stringIn(objectIn(saved?.["account"])?.["id"]);
  return id !== undefined && ACCOUNT_ID.test(id) ? id : undefined;
}
