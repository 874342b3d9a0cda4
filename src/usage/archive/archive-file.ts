// Files of archived usage records: one per UTC month, gzipped JSON lines in the form of the API.

import { closeSync, fsyncSync, mkdirSync, openSync, writeSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { utcDay } from "../../base/time.ts";
import { toUsageRecord as toApiRecord } from "../usage-record.ts";
import type { UsageRecord } from "../usage.ts";

/** Each call appends a member to the gzip file; readers such as `zcat` return the members as one stream. */
export function appendToArchive(folder: string, records: readonly UsageRecord[]): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const [month, ofMonth] of Map.groupBy(records, monthOf)) {
    const lines = ofMonth.map((record) =>
      JSON.stringify({ account_id: record.accountId, ...toApiRecord(record) }),
    );
    const file = openSync(path.join(folder, `usage-${month}.jsonl.gz`), "a", 0o600);
    try {
      writeAll(file, gzipSync(`${lines.join("\n")}\n`));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }
}

function monthOf({ createdAt }: UsageRecord): string {
  return utcDay(createdAt).slice(0, "2026-11".length);
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let offset = 0; offset < bytes.length;) offset += writeSync(file, bytes, offset);
}
