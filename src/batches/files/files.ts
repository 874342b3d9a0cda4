// Files of an account: uploads with the requests of batches, encrypted, within a quota, and deleted when they expire.

import { type Act, recordAuditEntry } from "../../activity/audit.ts";
import type { DerivedKey } from "../../base/crypto/encryption.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { newId } from "../../base/id.ts";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import { type Reach, wholeAccount } from "../../http/reach.ts";
import { readInTime } from "../../http/request/body.ts";
import type { Db, Tx } from "../../store/db.ts";
import { createAccountLimit } from "../account-limit.ts";
import { createDataKey, openSealer } from "../batch-encryption.ts";
import { findBatch, RESULTS_RETENTION_MS } from "../batch-rows.ts";
import { resultsResponse } from "../results.ts";
import { fileParts, getFile } from "./file-content.ts";
import {
  completeFile,
  deleteFile,
  insertFile,
  insertFilePart,
  readFileUse,
  type StoredFile,
} from "./file-rows.ts";
import { readUpload, type UploadForm } from "./read-upload.ts";

const FILE_MAX_BYTES = 100 * 1_048_576;
/** The most bytes of the form, which contains the file. */
export const UPLOAD_MAX_BYTES = FILE_MAX_BYTES + 1_048_576;
const ACCOUNT_BYTES_MAX = 1_073_741_824;
const ACCOUNT_FILES_MAX = 500;
const UPLOADS_PER_ACCOUNT_MAX = 4;
const PART_LENGTH = 1_048_576;
const UPLOAD_MAX_MS = 10 * MINUTE_MS;
/** Then a sweep deletes what a crash has left of an upload. */
const INCOMPLETE_EXPIRES_MS = HOUR_MS;
const FILENAME_MAX_LENGTH = 255;

export interface Files {
  readonly db: Db;
  readonly upload: (act: Act, request: Request) => Promise<StoredFile>;
  readonly content: (reach: Reach, id: string, now: number) => Promise<Response>;
  readonly remove: (tx: Tx, act: Act, reach: Reach, id: string) => Promise<void>;
}

interface FilesDeps {
  readonly db: Db;
  readonly kek: DerivedKey;
}

export function createFiles({ db, kek }: FilesDeps): Files {
  const limited = createAccountLimit(UPLOADS_PER_ACCOUNT_MAX, "uploads in progress");
  return {
    db,
    upload: (act, request) => limited(act.accountId, () => upload({ db, kek }, act, request)),
    content: async (reach, id, now) => {
      const file = await getFile(db, reach, id, { now });
      if (file.batchId !== null) return outputContent({ db, kek }, file);
      return new Response(toStream(fileParts(db, kek, file)), {
        headers: { "content-type": "application/octet-stream", "cache-control": "no-store" },
      });
    },
    remove: async (tx, act, reach, id) => {
      await getFile(tx, reach, id, { now: act.now });
      await deleteFile(tx, id);
      await recordAuditEntry(tx, { ...act, action: "file.deleted", target: id });
    },
  };
}

async function outputContent(
  { db, kek }: FilesDeps,
  { id, accountId, batchId }: StoredFile,
): Promise<Response> {
  const batch = await findBatch(db, wholeAccount(accountId), batchId ?? "");
  if (batch === undefined) throw new Fault("not_found", "the batch of a file was deleted");
  const only = batch.outputFileId === id ? "output" : "errors";
  return resultsResponse(db, kek, { batch, form: "openai", only });
}

function toStream(parts: AsyncGenerator<string, undefined>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    pull: async (controller) => {
      const next = await parts.next();
      if (next.done === true) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    cancel: async () => void (await parts.return(undefined)),
  });
}

async function upload({ db, kek }: FilesDeps, act: Act, request: Request): Promise<StoredFile> {
  const { accountId, now } = act;
  const { body } = request;
  if (body === null) throw invalid("file", "`file` is required: the content of the file.");
  if (Number(request.headers.get("content-length")) > UPLOAD_MAX_BYTES) throw tooLarge();
  await rejectOverQuota(db, accountId);
  const id = newId("file", now);
  const dataKey = createDataKey(kek, { id, accountId });
  const expiresAt = now + INCOMPLETE_EXPIRES_MS;
  const keyId = act.actor.id;
  const created = { id, accountId, keyId, filename: "", dataKey, createdAt: now, expiresAt };
  await db.write((tx) => insertFile(tx, created));
  const chunks = readInTime(body, UPLOAD_MAX_MS);
  try {
    const sealer = openSealer(kek, created, dataKey);
    const writer = createPartWriter((part, content) =>
      db.write(
        (tx) =>
          insertFilePart(tx, { fileId: id, part, sealed: sealer.seal(`part/${part}`, content) }),
        "os_cache",
      ),
    );
    const contentType = request.headers.get("content-type") ?? "";
    const form = await readUpload(chunks, contentType, writer.write);
    const { bytes, parts } = await writer.end();
    const filename = cleanFilename(form.filename);
    const file = { ...created, ...readFields(form, now), filename, bytes };
    await db.write(async (tx) => {
      await completeFile(tx, { ...file, parts });
      const detail = { bytes, purpose: file.purpose };
      await recordAuditEntry(tx, { ...act, action: "file.created", target: id, detail });
    });
    // Uploads at the same time count only once they are complete.
    await rejectOverQuota(db, accountId, 0);
    return file;
  } catch (error) {
    await db.write((tx) => deleteFile(tx, id));
    throw error;
  } finally {
    // After an error, the rest of the body is not read.
    await chunks.return(undefined);
  }
}

interface PartWriter {
  readonly write: (bytes: Uint8Array) => Promise<void>;
  readonly end: () => Promise<{ readonly bytes: number; readonly parts: number }>;
}

function createPartWriter(store: (part: number, content: string) => Promise<void>): PartWriter {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let content = "";
  let bytes = 0;
  let parts = 0;
  const decode = (chunk?: Uint8Array): string => {
    try {
      return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true });
    } catch {
      throw invalid("file", "`file` must be valid UTF-8.");
    }
  };
  return {
    write: async (chunk) => {
      bytes += chunk.length;
      if (bytes > FILE_MAX_BYTES) throw tooLarge();
      content += decode(chunk);
      if (content.length < PART_LENGTH) return;
      await store(parts, content);
      parts += 1;
      content = "";
    },
    end: async () => {
      content += decode();
      if (bytes === 0) throw invalid("file", "`file` must not be empty.");
      if (content !== "") {
        await store(parts, content);
        parts += 1;
      }
      return { bytes, parts };
    },
  };
}

const EXPIRES_MIN_SECONDS = HOUR_MS / SECOND_MS;
const EXPIRES_MAX_SECONDS = RESULTS_RETENTION_MS / SECOND_MS;

function readFields(
  { fields }: UploadForm,
  now: number,
): Pick<StoredFile, "purpose" | "batchId" | "expiresAt"> {
  const purpose = fields.get("purpose");
  if (purpose !== "batch")
    throw invalid(
      "purpose",
      "`purpose` must be `batch`: this gateway stores files only as the input of batches.",
    );
  const seconds = fields.get("expires_after[seconds]");
  const after = seconds === undefined ? EXPIRES_MAX_SECONDS : Number(seconds);
  if (!Number.isInteger(after) || after < EXPIRES_MIN_SECONDS || after > EXPIRES_MAX_SECONDS)
    throw invalid(
      "expires_after[seconds]",
      `\`expires_after[seconds]\` must be ${EXPIRES_MIN_SECONDS} to ${EXPIRES_MAX_SECONDS}.`,
    );
  return { purpose, batchId: null, expiresAt: now + after * SECOND_MS };
}

function cleanFilename(filename: string): string {
  const clean = filename.replaceAll(/\p{Cc}/gu, "").slice(0, FILENAME_MAX_LENGTH);
  return clean === "" ? "upload.jsonl" : clean;
}

async function rejectOverQuota(db: Db, accountId: string, more = 1): Promise<void> {
  const { files, bytes } = await readFileUse(db, accountId);
  if (files + more <= ACCOUNT_FILES_MAX && bytes <= ACCOUNT_BYTES_MAX) return;
  throw new Fault("conflict", "files above the quota", {
    message: `The files of this account may be at most ${ACCOUNT_FILES_MAX} and have at most ${ACCOUNT_BYTES_MAX / 1_073_741_824} GiB. Delete files that you no longer need.`,
    next: [{ method: "GET", url: "/v1/files", why: "List the files of this account." }],
  });
}

function tooLarge(): Fault {
  return new Fault("payload_too_large", "file too large", {
    message: `A file must have at most ${FILE_MAX_BYTES} bytes.`,
    headers: { connection: "close" },
  });
}
