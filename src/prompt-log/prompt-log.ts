// The requests and replies of keys with prompt logging, encrypted and expiring. It owns the table prompt_log. An entry is
// written in the transaction of its charge; only people of the workspace read it, and each view is audited.

import { setPromptRetention } from "../accounts/accounts.ts";
import { authorize } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { type DerivedKey, deriveKey, type MasterSecret } from "../base/crypto/encryption.ts";
import {
  createDataKey,
  dataKeyBinding,
  openSealer,
  type SealedRecord,
} from "../base/crypto/sealer.ts";
import { Fault } from "../base/fault.ts";
import type { LoggedTexts } from "../base/logged-texts.ts";
import { DAY_MS } from "../base/time.ts";
import {
  bytesOrNull,
  type Db,
  integer,
  type Reader,
  type Row,
  text,
  type Tx,
} from "../store/db.ts";
import type { EncryptedColumn } from "../store/reencrypt-rows.ts";

const PURPOSE = "prompt-log/v1";
/** The most characters of a request or a reply; the rest is not kept. */
const TEXT_MAX_CHARACTERS = 1_048_576;
const SWEPT_ROWS_MAX = 500;

export interface NewPrompt {
  readonly texts: LoggedTexts;
  readonly id: string;
  readonly accountId: string;
  readonly createdAt: number;
}

export interface Prompt {
  readonly request: string;
  readonly reply: string | null;
  readonly expiresAt: number;
}

export interface PromptLog {
  readonly insert: (tx: Tx, prompts: readonly NewPrompt[]) => Promise<void>;
  /** For a person who may read it: the view is recorded in the audit log. */
  readonly view: (tx: Tx, act: Act, id: string) => Promise<Prompt>;
  /** Reads the texts that are kept, by id. */
  readonly read: (
    reader: Reader,
    accountId: string,
    ids: readonly string[],
    now: number,
  ) => Promise<ReadonlyMap<string, Prompt>>;
}

/** `maxDays`: the operator's bound of the retention. */
export function createPromptLog(master: MasterSecret, maxDays: number): PromptLog {
  const kek = deriveKey(master, PURPOSE);
  const read: PromptLog["read"] = async (reader, accountId, ids, now) => {
    if (ids.length === 0) return new Map();
    const rows = await reader.all(
      `select * from prompt_log where account_id = ? and expires_at > ?
         and id in (${ids.map(() => "?").join(", ")})`,
      [accountId, now, ...ids],
    );
    return new Map(rows.map((row) => [text(row, "id"), toPrompt(kek, row)]));
  };
  return {
    read,
    insert: async (tx, prompts) => {
      for (const prompt of prompts) await insertPrompt(tx, prompt, { kek, maxDays });
    },
    view: async (tx, act, id) => {
      await authorize(tx, act, "prompts.read");
      const prompt = (await read(tx, act.accountId, [id], act.now)).get(id);
      if (prompt === undefined) throw noSuchPrompt();
      await recordAuditEntry(tx, { ...act, action: "prompt.viewed", target: id, detail: {} });
      return prompt;
    },
  };
}

interface Sealing {
  readonly kek: DerivedKey;
  readonly maxDays: number;
}

async function insertPrompt(
  tx: Tx,
  { id, accountId, createdAt, texts: { request, reply, retentionDays } }: NewPrompt,
  { kek, maxDays }: Sealing,
): Promise<void> {
  const record = { purpose: PURPOSE, id, accountId };
  const dataKey = createDataKey(kek, record);
  const { seal } = openSealer(kek, record, dataKey);
  const expiresAt = createdAt + Math.min(maxDays, retentionDays ?? maxDays) * DAY_MS;
  await tx.run(
    `insert into prompt_log (id, account_id, created_at, expires_at, data_key, sealed_request, sealed_reply)
     values (?, ?, ?, ?, ?, ?, ?) on conflict (id) do nothing`,
    [
      id,
      accountId,
      createdAt,
      expiresAt,
      dataKey,
      seal("request", request.slice(0, TEXT_MAX_CHARACTERS)),
      reply === undefined ? null : seal("reply", reply.slice(0, TEXT_MAX_CHARACTERS)),
    ],
  );
}

function toPrompt(kek: DerivedKey, row: Row): Prompt {
  const { open } = openSealer(kek, recordOf(row), text(row, "data_key"));
  const request = bytesOrNull(row, "sealed_request");
  const reply = bytesOrNull(row, "sealed_reply");
  return {
    request: request === null ? "" : open("request", request),
    reply: reply === null ? null : open("reply", reply),
    expiresAt: integer(row, "expires_at"),
  };
}

function recordOf(row: Row): SealedRecord {
  return { purpose: PURPOSE, id: text(row, "id"), accountId: text(row, "account_id") };
}

function noSuchPrompt(): Fault {
  return new Fault("not_found", "no such prompt", {
    message:
      "The request and reply of this call are not kept: its key had no prompt logging, or they have expired.",
  });
}

/** Whether the texts of a call are kept. */
export async function hasPrompt(
  reader: Reader,
  accountId: string,
  id: string,
  now: number,
): Promise<boolean> {
  const row = await reader.get(
    "select id from prompt_log where account_id = ? and id = ? and expires_at > ?",
    [accountId, id, now],
  );
  return row !== undefined;
}

/** Days until the texts of a workspace are deleted; null for the operator's bound. What is kept already expires no later. */
export async function changePromptRetention(tx: Tx, act: Act, days: number | null): Promise<void> {
  if (!(await setPromptRetention(tx, act, days)) || days === null) return;
  await tx.run(
    "update prompt_log set expires_at = created_at + ? where account_id = ? and expires_at > created_at + ?",
    [days * DAY_MS, act.accountId, days * DAY_MS],
  );
}

export async function sweepPrompts(db: Db, now: number): Promise<void> {
  const sweep = (tx: Tx): Promise<number> =>
    tx.run(
      "delete from prompt_log where id in (select id from prompt_log where expires_at <= ? limit ?)",
      [now, SWEPT_ROWS_MAX],
    );
  while ((await db.write(sweep)) === SWEPT_ROWS_MAX)
    await new Promise((resolve) => setImmediate(resolve));
}

/** For the rotation of the master secret. */
export const PROMPT_DATA_KEYS: EncryptedColumn = {
  table: "prompt_log",
  column: "data_key",
  key: ["id"],
  reads: ["account_id"],
  deriveKey: (master) => deriveKey(master, PURPOSE),
  associatedData: (row) => dataKeyBinding(recordOf(row)),
};
