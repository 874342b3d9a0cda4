// Presets: settings of model calls under a name, with versions. It owns the table preset. A version never changes; a call names the
// preset, and gets its newest version, or names a version.

import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { isObject, type JsonObject } from "../base/json.ts";
import { integer, type Reader, type Row, text, type Tx } from "../store/db.ts";

const PRESETS_PER_ACCOUNT_MAX = 200;
/** The most versions of one preset; the oldest are deleted. */
const VERSIONS_MAX = 100;
/** The most characters of all versions of all presets of an account. */
const CHARACTERS_MAX = 16_777_216;

export interface Preset {
  readonly name: string;
  readonly version: number;
  readonly createdAt: number;
  readonly settings: JsonObject;
}

/** Adds a version with these settings. Equal settings add none. */
export async function savePreset(
  tx: Tx,
  act: Act,
  name: string,
  settings: JsonObject,
): Promise<Preset> {
  const { accountId, now } = act;
  // Serializes concurrent changes, so that the counts and the versions are exact.
  await tx.lockMany("account", "id", [accountId]);
  const latest = await findPreset(tx, accountId, name);
  const encoded = JSON.stringify(settings);
  if (latest !== undefined && JSON.stringify(latest.settings) === encoded) return latest;
  await assertBelowLimits(tx, accountId, { isNew: latest === undefined, length: encoded.length });
  const version = (latest?.version ?? 0) + 1;
  await tx.run(
    "insert into preset (account_id, name, version, created_at, settings) values (?, ?, ?, ?, ?)",
    [accountId, name, version, now, encoded],
  );
  await tx.run("delete from preset where account_id = ? and name = ? and version <= ?", [
    accountId,
    name,
    version - VERSIONS_MAX,
  ]);
  const detail = { version };
  await recordAuditEntry(tx, { ...act, action: "preset.saved", target: name, detail });
  return { name, version, createdAt: now, settings };
}

async function assertBelowLimits(
  reader: Reader,
  accountId: string,
  { isNew, length }: { readonly isNew: boolean; readonly length: number },
): Promise<void> {
  const row = await reader.get(
    "select count(distinct name) as count, coalesce(sum(length(settings)), 0) as characters from preset where account_id = ?",
    [accountId],
  );
  if (row === undefined) return;
  if (isNew && integer(row, "count") >= PRESETS_PER_ACCOUNT_MAX)
    throw new Fault("conflict", "too many presets", {
      message: `A workspace can have ${PRESETS_PER_ACCOUNT_MAX} presets. Delete one first.`,
    });
  if (integer(row, "characters") + length > CHARACTERS_MAX)
    throw new Fault("conflict", "too long presets", {
      message: `The presets of a workspace, with their earlier versions, can have ${CHARACTERS_MAX} characters. Delete one first.`,
    });
}

/** Deletes all versions. */
export async function deletePreset(tx: Tx, act: Act, name: string): Promise<void> {
  const deleted = await tx.run("delete from preset where account_id = ? and name = ?", [
    act.accountId,
    name,
  ]);
  if (deleted === 0) throw noSuchPreset(name);
  await recordAuditEntry(tx, { ...act, action: "preset.deleted", target: name });
}

export async function getPreset(
  reader: Reader,
  accountId: string,
  name: string,
  version?: number,
): Promise<Preset> {
  const preset = await findPreset(reader, accountId, name, version);
  if (preset === undefined) throw noSuchPreset(name, version);
  return preset;
}

/** The newest version, if none is named. */
export async function findPreset(
  reader: Reader,
  accountId: string,
  name: string,
  version?: number,
): Promise<Preset | undefined> {
  const [condition, params] = version === undefined ? ["", []] : ["and version = ?", [version]];
  const row = await reader.get(
    `select * from preset where account_id = ? and name = ? ${condition} order by version desc limit 1`,
    [accountId, name, ...params],
  );
  return row && toPreset(row);
}

/** The newest version of each, by name. */
export async function listPresets(reader: Reader, accountId: string): Promise<readonly Preset[]> {
  const rows = await reader.all(
    `select * from preset where account_id = ? and version = (select max(version) from preset newest
     where newest.account_id = preset.account_id and newest.name = preset.name) order by name`,
    [accountId],
  );
  return rows.map(toPreset);
}

function noSuchPreset(name: string, version?: number): Fault {
  const named = version === undefined ? `"${name}"` : `"${name}" with version ${version}`;
  return new Fault("not_found", "no such preset", {
    message: `This workspace has no preset ${named}. List the presets with GET /v1/presets.`,
    param: "name",
    next: [{ method: "GET", url: "/v1/presets", why: "List the presets." }],
  });
}

function toPreset(row: Row): Preset {
  const settings: unknown = JSON.parse(text(row, "settings"));
  return {
    name: text(row, "name"),
    version: integer(row, "version"),
    createdAt: integer(row, "created_at"),
    settings: isObject(settings) ? settings : {},
  };
}
