// `Idempotency-Key`: repeated requests get the first response for a day. It owns the table idempotent_answer. A
// response may contain a raw API key, so it is encrypted with the client's idempotency key, of which only a fingerprint
// is stored: the store alone cannot decrypt it.

import {
  decrypt,
  type DerivedKey,
  deriveKey,
  encrypt,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { Fault } from "../base/fault.ts";
import { DAY_MS, MINUTE_MS, SECOND_MS } from "../base/time.ts";
import { readAllAccounts } from "../store/all-accounts.ts";
import {
  type AccountKey,
  type Db,
  integer,
  integerOrNull,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../store/db.ts";

const RETENTION_MS = DAY_MS;
/** How long a repetition shows a raw key again. */
const SECRET_SHOWN_MS = 10 * MINUTE_MS;
/** A call may need this long from its record here to its hold: it may have to pay first, and clocks differ. */
const CALL_START_GRACE_MS = 5 * MINUTE_MS;

interface IdempotentRequest {
  /** Absent if the caller has no account. Calls write their records with the other rows of their account. */
  readonly accountId?: string | undefined;
  /** The key, person or client address, and the route. */
  readonly scope: string;
  readonly key: string;
  /** Everything that identifies the request; another body under the same key is a conflict. */
  readonly body: string;
  readonly now: number;
  /** The hold whose existence shows that the request is running; absent if the request ends with its transaction. */
  readonly holdId?: string | undefined;
  /** The response has a secret, so it is repeated for minutes only. */
  readonly revealsSecret?: boolean;
  /** How long the response is kept, and how old it may be. At most a day, the default. */
  readonly maxAgeMs?: number;
}

export interface IdempotentResponse {
  readonly status: number;
  readonly body: string;
}

interface StoredResponse extends IdempotentResponse {
  /** When its request began. */
  readonly createdAt: number;
}

export interface Idempotency {
  /** Claims the key in the caller's transaction, or returns the stored response. */
  readonly begin: (tx: Tx, request: IdempotentRequest) => Promise<StoredResponse | undefined>;
  /** False if the key was released, or taken over by a repetition, because the request seemed dead. */
  readonly finish: (
    tx: Tx,
    request: IdempotentRequest,
    response: IdempotentResponse,
  ) => Promise<boolean>;
  /**
   * Releases the key of a failed request, so that it can be retried. Like `finish`, it ignores another request's
   * record.
   */
  readonly release: (tx: Tx, request: IdempotentRequest) => Promise<void>;
}

/** A process in one of its runs. */
interface RunningProcess {
  readonly name: string;
  readonly epoch: number;
}

/** With `owner`, the process that runs the calls, others can take over their keys when it has ended. */
export function createIdempotency(master: MasterSecret, owner?: RunningProcess): Idempotency {
  const sealing = createSealing(master);
  const { keyOf, bodyFingerprintOf, encryptionKeyOf } = sealing;

  return {
    begin: async (tx, request) => {
      await moveToCurrentSecret(tx, request, sealing);
      const key = keyOf(request);
      const { maxAgeMs = RETENTION_MS } = request;
      await tx.run(
        "delete from idempotent_answer where account_id = ? and id = ? and (expires_at <= ? or (state = 'done' and created_at <= ?))",
        [...key, request.now, request.now - maxAgeMs],
      );
      const fingerprint = bodyFingerprintOf(request);
      if (await insertRunning(tx, { key, fingerprint }, { request, owner })) return undefined;
      const row = await tx.get(SELECT_RECORD, key);
      if (row === undefined) throw stillRunningFault();
      if (text(row, "fingerprint") !== fingerprint) throw keyReusedFault();
      if (text(row, "state") !== "done") {
        if (!(await takeOverAbandoned(tx, row, { request, owner }))) throw stillRunningFault();
        return undefined;
      }
      if (
        request.revealsSecret === true &&
        integer(row, "created_at") + SECRET_SHOWN_MS <= request.now
      )
        throw secretShownFault();
      return {
        status: integer(row, "status"),
        createdAt: integer(row, "created_at"),
        body: decrypt(encryptionKeyOf(request), key[1], text(row, "sealed")),
      };
    },
    finish: async (tx, request, response) => {
      const key = keyOf(request);
      const updated = await tx.run(
        `update idempotent_answer set state = 'done', status = ?, sealed = ?, expires_at = created_at + ? where account_id = ? and ${IS_OWN_RECORD}`,
        [
          response.status,
          encrypt(encryptionKeyOf(request), key[1], response.body),
          request.maxAgeMs ?? RETENTION_MS,
          ...key,
          request.holdId ?? "",
        ],
      );
      return updated === 1;
    },
    release: (tx, request) => deleteRunning(tx, keyOf(request), request.holdId),
  };
}

/** How a request finds, compares and encrypts its record. */
interface Sealing {
  readonly keyOf: (request: IdempotentRequest) => AccountKey;
  /** The key by the previous master secret, while it is rotated. */
  readonly previousKeyOf: (request: IdempotentRequest) => AccountKey | undefined;
  readonly bodyFingerprintOf: (request: IdempotentRequest) => string;
  readonly isBody: (request: IdempotentRequest, bodyFingerprint: string) => boolean;
  readonly encryptionKeyOf: (request: IdempotentRequest) => DerivedKey;
}

function createSealing(master: MasterSecret): Sealing {
  const pepper = deriveKey(master, "idempotency/v1");
  const name = ({ accountId, scope, key }: IdempotentRequest): string =>
    `${accountId === undefined ? "" : `${accountId} `}${scope}\n${key}`;
  const withAccount = ({ accountId }: IdempotentRequest, id: string): AccountKey => [
    accountId ?? id,
    id,
  ];
  return {
    keyOf: (request) => withAccount(request, fingerprint(pepper, name(request))),
    previousKeyOf: (request) => {
      const id = fingerprints(pepper, name(request))[1];
      return id === undefined ? undefined : withAccount(request, id);
    },
    bodyFingerprintOf: ({ body }) => fingerprint(pepper, `body\n${body}`),
    isBody: ({ body }, bodyFingerprint) =>
      fingerprints(pepper, `body\n${body}`).includes(bodyFingerprint),
    // Decryption needs the master secret and the idempotency key, which only the client has.
    encryptionKeyOf: (request) => {
      const bind = (part: Secret): Secret => secret(`${part.reveal()}\n${name(request)}`);
      const previous = master.previous && bind(master.previous);
      return deriveKey({ ...bind(master), previous }, "idempotent-answer/v1");
    },
  };
}

const SELECT_RECORD = "select * from idempotent_answer where account_id = ? and id = ?";

// While the master secret is rotated, a key may have been used under the previous secret.
async function moveToCurrentSecret(
  tx: Tx,
  request: IdempotentRequest,
  { keyOf, previousKeyOf, bodyFingerprintOf, isBody, encryptionKeyOf }: Sealing,
): Promise<void> {
  const previousKey = previousKeyOf(request);
  if (previousKey === undefined) return;
  const row = await tx.get(`${SELECT_RECORD} and expires_at > ?`, [...previousKey, request.now]);
  if (row === undefined) return;
  if (!isBody(request, text(row, "fingerprint"))) throw keyReusedFault();
  if (text(row, "state") !== "done") throw stillRunningFault();
  const encryptionKey = encryptionKeyOf(request);
  const key = keyOf(request);
  const body = decrypt(encryptionKey, previousKey[1], text(row, "sealed"));
  await tx.run("delete from idempotent_answer where account_id = ? and id = ?", previousKey);
  await tx.run(
    `insert into idempotent_answer (account_id, id, fingerprint, state, status, sealed, created_at, expires_at)
     values (?, ?, ?, 'done', ?, ?, ?, ?)`,
    [
      ...key,
      bodyFingerprintOf(request),
      integer(row, "status"),
      encrypt(encryptionKey, key[1], body),
      integer(row, "created_at"),
      integer(row, "expires_at"),
    ],
  );
}

interface KeyClaim {
  readonly request: IdempotentRequest;
  readonly owner: RunningProcess | undefined;
}

/** Returns false if the key has a record. PostgreSQL waits while another transaction holds the same key, which is then seen. */
async function insertRunning(
  tx: Tx,
  { key, fingerprint }: { readonly key: AccountKey; readonly fingerprint: string },
  { request: { holdId, now }, owner }: KeyClaim,
): Promise<boolean> {
  const inserted = await tx.run(
    `insert into idempotent_answer (account_id, id, fingerprint, state, hold_id, process, epoch, created_at, expires_at)
     values (?, ?, ?, 'running', ?, ?, ?, ?, ?) on conflict (account_id, id) do nothing`,
    [
      ...key,
      fingerprint,
      holdId ?? null,
      owner?.name ?? null,
      owner?.epoch ?? null,
      now,
      now + RETENTION_MS,
    ],
  );
  return inserted === 1;
}

/** Takes over the record of a call that died with its process; of concurrent requests, one succeeds. */
async function takeOverAbandoned(tx: Tx, row: Row, { request, owner }: KeyClaim): Promise<boolean> {
  const grace = { now: request.now, graceMs: CALL_START_GRACE_MS };
  if ((await findAbandoned(tx, [row], grace)).length === 0) return false;
  const updated = await tx.run(
    `update idempotent_answer set hold_id = ?, process = ?, epoch = ?, created_at = ?, expires_at = ?
     where account_id = ? and id = ? and hold_id = ? and state = 'running'`,
    [
      request.holdId ?? null,
      owner?.name ?? null,
      owner?.epoch ?? null,
      request.now,
      request.now + RETENTION_MS,
      ...recordKeyOf(row),
      textOrNull(row, "hold_id"),
    ],
  );
  return updated === 1;
}

/**
 * Those of the running records whose hold was swept, or that have no hold although they are old or their process has started
 * again. A start in the future is that of a process whose clock is ahead: a living call only loses its key by it, see `finish`.
 */
async function findAbandoned(
  tx: Tx,
  rows: readonly Row[],
  { now, graceMs }: { readonly now: number; readonly graceMs: number },
): Promise<readonly Row[]> {
  const holds = holdsOf(rows);
  const [held, swept, processes] = await Promise.all([
    tx.readMany("hold", "account_id, id", holds, "id").then((found) => valuesOf(found, "id")),
    tx.readMany("swept_hold", "account_id, id", holds, "id").then((found) => valuesOf(found, "id")),
    tx.readMany("process", "name", [...valuesOf(rows, "process")], "name, epoch"),
  ]);
  const epochs = new Map(processes.map((row) => [text(row, "name"), integer(row, "epoch")]));
  return rows.filter((row) => {
    const holdId = textOrNull(row, "hold_id") ?? "";
    if (swept.has(holdId)) return true;
    const isOld = Math.abs(integer(row, "created_at") - now) > graceMs;
    const epoch = epochs.get(textOrNull(row, "process") ?? "");
    const hasRestarted = epoch !== undefined && epoch > (integerOrNull(row, "epoch") ?? epoch);
    return (isOld || hasRestarted) && !held.has(holdId);
  });
}

function holdsOf(rows: readonly Row[]): readonly AccountKey[] {
  return rows.flatMap((row) => {
    const holdId = textOrNull(row, "hold_id");
    return holdId === null ? [] : [[text(row, "account_id"), holdId] as const];
  });
}

function valuesOf(rows: readonly Row[], column: string): ReadonlySet<string> {
  return new Set(rows.flatMap((row) => textOrNull(row, column) ?? []));
}

// A key that was released while its call was running may belong to another call.
const IS_OWN_RECORD = "id = ? and coalesce(hold_id, '') = ?";

async function deleteRunning(tx: Tx, key: AccountKey, holdId = ""): Promise<void> {
  await tx.run(
    `delete from idempotent_answer where account_id = ? and ${IS_OWN_RECORD} and state = 'running'`,
    [...key, holdId],
  );
}

async function deleteAllRunning(tx: Tx, rows: readonly Row[]): Promise<void> {
  for (const row of rows)
    await deleteRunning(tx, recordKeyOf(row), textOrNull(row, "hold_id") ?? undefined);
}

function recordKeyOf(row: Row): AccountKey {
  return [text(row, "account_id"), text(row, "id")];
}

const RUNNING_COLUMNS = "id, hold_id, account_id, process, epoch, created_at";

/** Releases the keys of calls that died with their process. */
export async function releaseAbandonedKeys(
  db: Db,
  now: number,
  graceMs = CALL_START_GRACE_MS,
): Promise<void> {
  const rows = await readRunning(db, RUNNING_COLUMNS);
  if (rows.length > 0)
    await db.write(async (tx) =>
      deleteAllRunning(tx, await findAbandoned(tx, rows, { now, graceMs })),
    );
}

function readRunning(reader: Reader, columns: string): Promise<readonly Row[]> {
  const sql = `select ${columns} from idempotent_answer where state = 'running'`;
  return readAllAccounts(reader, "idempotent_answer", sql);
}

/** The keys that processes claimed for calls. */
export const runningKeys = { findProcesses: findProcessesWithKeys, release: releaseKeysOf };

async function findProcessesWithKeys(reader: Reader): Promise<readonly string[]> {
  return [...valuesOf(await readRunning(reader, "distinct process"), "process")];
}

/** Releases the keys of calls without a hold. */
async function releaseKeysOf(tx: Tx, processes: readonly RunningProcess[]): Promise<void> {
  const epochs = new Map(processes.map(({ name, epoch }) => [name, epoch]));
  const rows = (await readRunning(tx, RUNNING_COLUMNS)).filter((row) => {
    const epoch = epochs.get(textOrNull(row, "process") ?? "");
    return epoch !== undefined && (integerOrNull(row, "epoch") ?? Infinity) <= epoch;
  });
  const held = valuesOf(await tx.readMany("hold", "account_id, id", holdsOf(rows), "id"), "id");
  await deleteAllRunning(
    tx,
    rows.filter((row) => !held.has(textOrNull(row, "hold_id") ?? "")),
  );
}

/** Records that expire within this time are deleted in one transaction, which blocks SQLite. */
const DELETED_MS = 2 * SECOND_MS;

export async function deleteExpiredResponses(db: Db, now: number): Promise<void> {
  for (;;) {
    const row = await db.get(
      "select min(expires_at) as first from idempotent_answer where expires_at <= ?",
      [now],
    );
    const first = row === undefined ? null : integerOrNull(row, "first");
    if (first === null) return;
    const until = Math.min(now, first + DELETED_MS);
    await db.write(
      (tx) => tx.run("delete from idempotent_answer where expires_at <= ?", [until]),
      "os_cache",
    );
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function keyReusedFault(): Fault {
  return new Fault("conflict", "idempotency key reused", {
    message:
      "This `Idempotency-Key` was used with another request. Use a new key for a new request.",
    param: "idempotency-key",
  });
}

function secretShownFault(): Fault {
  return new Fault("conflict", "secret not shown again", {
    message:
      "The request with this `Idempotency-Key` succeeded more than ten minutes ago, and its secret is not shown again. If it is lost, use a new key for a new request.",
    param: "idempotency-key",
  });
}

function stillRunningFault(): Fault {
  return new Fault("conflict", "idempotency key still running", {
    message:
      "The first request with this `Idempotency-Key` is still running. Wait for `retry-after` seconds and try again.",
    param: "idempotency-key",
    retryAfterSeconds: 1,
  });
}
