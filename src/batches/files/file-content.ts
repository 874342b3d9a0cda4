// Reads the content of files: the parts of an upload, or the results of a batch.

import type { DerivedKey } from "../../base/crypto/encryption.ts";
import { Fault, invalid } from "../../base/fault.ts";
import { isObject, parseJson } from "../../base/json.ts";
import { type Reach, REACH_TEXT } from "../../http/reach.ts";
import { rejectUnboundedJson } from "../../http/request/body.ts";
import { memberText } from "../../inference/request/json-edit.ts";
import type { Reader } from "../../store/db.ts";
import { openSealer } from "../batch-encryption.ts";
import { REQUESTS_MAX, type SentItem } from "../create-batch.ts";
import { findFile, readFilePart, type StoredFile } from "./file-rows.ts";

const LINE_MAX_LENGTH = 17 * 1_048_576;
/** The most lines of a file of requests. Empty ones count, because they take time to skip. */
const LINES_MAX = 2 * REQUESTS_MAX;

export async function getFile(
  reader: Reader,
  reach: Reach,
  id: string,
  { now, param = "id" }: { readonly now: number; readonly param?: string },
): Promise<StoredFile> {
  const file = await findFile(reader, reach, id, now);
  if (file !== undefined) return file;
  throw new Fault("not_found", "no such file", {
    message: `This key has no file ${id.slice(0, 80)}. Files are deleted when they expire: see \`expires_at\`. ${REACH_TEXT}`,
    param,
    next: [{ method: "GET", url: "/v1/files", why: "List the files that this key reaches." }],
  });
}

/** The content of an uploaded file, part by part. */
export async function* fileParts(
  reader: Reader,
  kek: DerivedKey,
  file: StoredFile,
): AsyncGenerator<string, undefined> {
  const sealer = openSealer(kek, file, file.dataKey);
  for (let part = 0; ; part++) {
    const sealed = await readFilePart(reader, file.id, part);
    if (sealed === undefined) return undefined;
    yield sealer.open(`part/${part}`, sealed);
  }
}

export async function* linesOf(
  parts: AsyncIterable<string>,
  lineMaxLength = LINE_MAX_LENGTH,
): AsyncGenerator<string, undefined> {
  let rest = "";
  for await (const part of parts) {
    const lines = (rest + part).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
    if (rest.length > lineMaxLength)
      throw invalid(
        "input_file_id",
        `A line of the file has more than ${lineMaxLength} characters. Shorten its request.`,
      );
  }
  if (rest !== "") yield rest;
  return undefined;
}

/** The requests of a batch, one a line. Empty lines are skipped. */
export async function* fileItems(
  parts: AsyncIterable<string>,
  endpoint: string,
): AsyncGenerator<SentItem, undefined> {
  let line = 0;
  for await (const text of linesOf(parts)) {
    line += 1;
    if (line > LINES_MAX)
      throw invalid(
        "input_file_id",
        `The file has more than ${LINES_MAX} lines. Split it into several batches.`,
      );
    if (text.trim() === "") continue;
    const path = `line ${line}`;
    rejectUnboundedJson(text);
    const json = parseJson(text);
    if (!isObject(json))
      throw invalid("input_file_id", `${path} of the file is not a JSON object.`);
    yield toSentItem(json, path, { endpoint, text });
  }
  return undefined;
}

/** A request in OpenAI's form, as it was parsed from `text`. */
export function toSentItem(
  { custom_id: customId, method, url, body }: Readonly<Record<string, unknown>>,
  path: string,
  { endpoint, text }: { readonly endpoint: string; readonly text: string },
): SentItem {
  if (method !== undefined && method !== "POST")
    throw invalid(`${path}.method`, `\`method\` of ${path} must be POST.`);
  if (url !== undefined && url !== endpoint)
    throw invalid(
      `${path}.url`,
      `\`url\` of ${path} must be the endpoint of the batch, ${endpoint}. Send requests of other endpoints as another batch.`,
    );
  return { path, customId, body, text: memberText(text, "body") };
}
