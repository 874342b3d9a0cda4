// `postern connect`: writes the configuration of a coding agent for a gateway. Without --yes it only shows what it would write.

import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import path from "node:path";
import { invalid } from "../../base/fault.ts";
import {
  type JsonObject,
  arrayIn,
  isObject,
  objectIn,
  parseObject,
  stringIn,
} from "../../base/json.ts";
import { booleanFlag, type CliEnv, type Command, type ParsedArgs, stringFlag } from "../command.ts";
import {
  CLIENT_CONFIGS,
  type ClientModel,
  type ClientTarget,
  type FileChange,
} from "./client-configs.ts";
import { listCallableModels, request } from "./gateway-client.ts";
import { URL_FLAG, gatewayUrl } from "./gateway-url.ts";
import { keyFolder, readKey, readText, saveKey, writePrivate } from "./key-file.ts";

const ENV_CLIENT = "env";
const CLIENT_NAMES = [...Object.keys(CLIENT_CONFIGS), ENV_CLIENT];
/** A placeholder for the key of an account that is not created yet. */
const KEY_PLACEHOLDER = "<new key>";
const MASK = "••••";

export const connect: Command = {
  summary: "Configure a coding agent to use a gateway",
  details: `Clients: ${CLIENT_NAMES.join(", ")}.\nCreates an account if there is no key in ~/.postern. Without --yes, nothing is created or written: the changes are\nonly shown.`,
  positionals: ["client"],
  flags: {
    url: URL_FLAG,
    model: stringFlag("<id>", "The model. Default: the first that the gateway can call."),
    yes: booleanFlag("Write the changes."),
    undo: booleanFlag("Restore the files as they were before."),
    claim: stringFlag("<email>", "Start a claim of the account by this person."),
  },
  run: async (args, cli) => {
    const [client = ""] = args.positionals;
    if (!CLIENT_NAMES.includes(client))
      throw invalid(
        "client",
        `"${client}" is not a known client. Use one of ${CLIENT_NAMES.join(", ")}.`,
      );
    if (args.has("undo")) undo(client, cli);
    else await connectClient(client, args, cli);
    return 0;
  },
};

async function connectClient(client: string, args: ParsedArgs, cli: CliEnv): Promise<void> {
  const url = gatewayUrl(args, cli);
  const home = cli.client.homeFolder;
  const models = await listCallableModels(url);
  const model = chooseModel(models, args.value("model"), client);
  const isWriting = args.has("yes");
  const found = readKey(home, url) ?? cli.client.apiKey;
  const key = found ?? (isWriting ? await openAccount(url, cli) : KEY_PLACEHOLDER);
  if (client === ENV_CLIENT) {
    printEnvironment(url, key, cli);
    if (key === KEY_PLACEHOLDER) cli.print("Add --yes to create an account.");
  } else {
    const sorted = [model, ...models.filter(({ id }) => id !== model.id)];
    configure(client, { home, url, key, model, models: sorted }, isWriting, cli);
  }
  const email = args.value("claim");
  if (email !== undefined && isWriting) await startClaim(url, key, email, cli);
}

function configure(
  client: string,
  target: ClientTarget,
  isWriting: boolean,
  { print }: CliEnv,
): void {
  const config = CLIENT_CONFIGS[client]?.(target);
  const changes = (config?.files ?? []).map(({ file, next }): FileChange => ({
    file,
    text: changedText(file, next),
  }));
  for (const change of changes) print(difference(change, target.key));
  if (!isWriting) {
    print("Nothing was written. Add --yes to write it.");
    return;
  }
  writeAll(client, changes, target.home);
  print(`Done. Start it with: ${config?.start ?? client}`);
  print(`Undo with: postern connect ${client} --undo`);
}

/** Claude Code knows its own models best. */
function chooseModel(
  models: readonly ClientModel[],
  wanted: string | undefined,
  client: string,
): ClientModel {
  const preferred =
    client === "claude" ? models.find(({ id }) => id.includes("claude")) : undefined;
  const model =
    wanted === undefined ? (preferred ?? models[0]) : models.find(({ id }) => id === wanted);
  if (model !== undefined) return model;
  throw invalid(
    "--model",
    wanted === undefined
      ? "The gateway cannot call any model now. Ask its operator to set a provider key."
      : `The gateway cannot call "${wanted}". See GET /v1/models.`,
  );
}

async function openAccount(url: string, cli: CliEnv): Promise<string> {
  const created = await createAccount(url, cli);
  const key = stringIn(created["api_key"]);
  if (key === undefined) throw new Error("The gateway created an account without a key.");
  cli.print(`Created an account. Its key is in ${saveKey(cli.client.homeFolder, url, created)}`);
  const usd = objectIn(created["balance"])?.["usd"];
  cli.print(
    `Its balance is $${String(usd)}. Each call reserves the cost of its longest possible reply, and gets a 402 if the balance is lower: ask a human to claim the account (--claim <email>), or buy credits.`,
  );
  return key;
}

async function createAccount(url: string, cli: CliEnv): Promise<JsonObject> {
  try {
    return await request(url, "POST /v1/accounts", { body: {} });
  } catch (error) {
    const challenge = challengeIn(error instanceof Error ? error.cause : undefined);
    if (challenge === undefined) throw error;
    cli.print("The gateway asks for a proof of work. Solving it …");
    const headers = { "proof-of-work": solveProof(challenge) };
    return request(url, "POST /v1/accounts", { body: {}, headers });
  }
}

function changedText(file: string, next: (current: string | undefined) => string): string {
  try {
    return next(readText(file));
  } catch (cause) {
    throw new Error(`${file}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

/** The value of a field that holds a secret, but not the name of a variable or a reference to a file. */
const SECRET_VALUE =
  /((?:key|token|authorization)["']?\s*[:=]\s*["']?(?:bearer\s+)?)(?![a-z]+_[a-z_]+["']|\{)([^"',\s]{8,})/gi;

/** Removed and added lines. All keys are masked: the file may have those of other providers. */
function difference({ file, text }: FileChange, key: string): string {
  const before = (readText(file) ?? "").split("\n");
  const after = text.split("\n");
  const removed = before.filter((line) => line !== "" && !after.includes(line));
  const added = after.filter((line) => line !== "" && !before.includes(line));
  const maskedKey = key === KEY_PLACEHOLDER ? key : `${key.slice(0, 12)}${MASK}`;
  const mask = (line: string): string =>
    line
      .replace(SECRET_VALUE, (_match, name: string, value: string) =>
        value === key ? `${name}${maskedKey}` : `${name}${MASK}`,
      )
      .replaceAll(key, maskedKey);
  return [
    file,
    ...removed.map((line) => `- ${mask(line)}`),
    ...added.map((line) => `+ ${mask(line)}`),
  ].join("\n");
}

function undoFile(client: string, home: string): string {
  return path.join(keyFolder(home), `undo-${client}.json`);
}

function writeAll(client: string, changes: readonly FileChange[], home: string): void {
  const record = undoFile(client, home);
  const earlier = parseObject(readText(record) ?? "") ?? {};
  // A second run must not replace the state before the first. It may write other files, for another gateway.
  const recorded = arrayIn(earlier["files"]).map((entry) => objectIn(entry) ?? {});
  const added = changes
    .filter(({ file }) => recorded.every((entry) => entry["file"] !== file))
    .map(({ file }) => ({ file, before: readText(file) ?? null }));
  const files = [...recorded, ...added];
  const writtenBefore = objectIn(earlier["written"]) ?? {};
  writePrivate(record, JSON.stringify({ files, written: writtenBefore }));
  for (const { file, text } of changes) writePrivate(file, text);
  const written = Object.fromEntries(changes.map(({ file, text }) => [file, digest(text)]));
  writePrivate(record, JSON.stringify({ files, written: { ...writtenBefore, ...written } }));
}

function undo(client: string, { client: { homeFolder }, print }: CliEnv): void {
  const record = undoFile(client, homeFolder);
  const { files, written } = parseObject(readText(record) ?? "") ?? {};
  if (files === undefined) throw new Error(`There is nothing to undo for ${client}.`);
  const entries = arrayIn(files).map((entry) => objectIn(entry) ?? {});
  for (const { file } of entries) {
    const name = stringIn(file) ?? "";
    const text = readText(name);
    if (text !== undefined && digest(text) !== objectIn(written)?.[name])
      throw new Error(
        `${name} was changed after postern connect wrote it. Edit it by hand; its earlier content is in ${record}.`,
      );
  }
  for (const { file, before } of entries) {
    const name = stringIn(file) ?? "";
    if (typeof before === "string") writePrivate(name, before);
    else rmSync(name, { force: true });
    print(`Restored ${name}`);
  }
  rmSync(record);
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function printEnvironment(url: string, key: string, { print }: CliEnv): void {
  print(`export POSTERN_API_KEY=${key}`);
  print(`export OPENAI_BASE_URL=${url}/v1 OPENAI_API_KEY=${key}`);
  print(`export ANTHROPIC_BASE_URL=${url} ANTHROPIC_AUTH_TOKEN=${key}`);
}

async function startClaim(
  url: string,
  key: string,
  email: string,
  { print }: CliEnv,
): Promise<void> {
  const started = await request(url, "POST /agent/identity/claim", { key, body: { email } });
  const attempt = objectIn(started["claim_attempt"]) ?? {};
  print(`Send this link to ${email}: ${stringIn(attempt["verification_uri_complete"]) ?? ""}`);
  print(`The page must show the code ${stringIn(attempt["user_code"]) ?? ""}`);
}

const HASH_BITS = 256;

/**
 * Solves the proof of work that a gateway may ask for before it creates an account: appends a number to the challenge, such that
 * the SHA-256 begins with as many zero bits as the challenge's first part says.
 */
export function solveProof(challenge: string): string {
  const bits = Number(challenge.split(".", 1)[0]);
  for (let number = 0; ; number++) {
    const proof = `${challenge}.${number}`;
    const hash = createHash("sha256").update(proof).digest("hex");
    if (BigInt(`0x${hash}`) >> BigInt(HASH_BITS - bits) === 0n) return proof;
  }
}

/** The challenge of a `403 proof_of_work_required`. */
export function challengeIn(error: unknown): string | undefined {
  const demand = isObject(error) ? error["proof_of_work"] : undefined;
  const challenge = isObject(demand) ? stringIn(demand["challenge"]) : undefined;
  // A gateway must not make the command compute forever.
  return challenge !== undefined && /^([12]?\d)\.\d/.test(challenge) ? challenge : undefined;
}
