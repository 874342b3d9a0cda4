// The sign-in of a program on a device without a browser (RFC 8628): the program shows a code, a person enters it in the
// browser and chooses a workspace, and the program gets a key of it. Owns the table device_login. The store has only
// fingerprints of both codes, and the key is created when the program collects it, so it is never stored.

import { authorize } from "../accounts/members.ts";
import { personAct, recordAuditEntry } from "../activity/audit.ts";
import {
  deriveKey,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { randomBase62, randomConsonants } from "../base/crypto/secret.ts";
import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { toNano } from "../base/money/money.ts";
import { toLimitWindow } from "../base/money/spend-window.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../base/time.ts";
import { incrementUpTo, strangerLimits, type WindowLimit } from "../claims/rate-counters.ts";
import { networksOf } from "../http/request/client-ip.ts";
import { MODEL_CALL_SCOPES } from "../http/scopes.ts";
import type { KeySettings } from "../keys/key-settings.ts";
import { type Keys, revokeKey } from "../keys/keys.ts";
import { createKeyForMember } from "../keys/member-keys.ts";
import { integer, integerOrNull, type Row, text, textOrNull, type Tx } from "../store/db.ts";
import type { KeyLimit } from "./key-limit.tsx";

/** 256 bits. */
const DEVICE_CODE_CHARACTERS = 43;
/** 34 bits, of which a person and a network may try few. */
const USER_CODE_CHARACTERS = 8;
export const LIFETIME_MS = 10 * MINUTE_MS;
export const INTERVAL_MS = 5_000;
const SLOW_DOWN_MS = 5_000;
const INTERVAL_MAX_MS = 5 * MINUTE_MS;
export const KEY_LIFETIME_MS = 90 * DAY_MS;
/** After it, a code that is sent again can no longer revoke its key. */
const RETENTION_MS = HOUR_MS;
const DELETE_MAX = 1_000;
const WINDOW_MS = 10 * MINUTE_MS;
const STARTS_PER_NETWORK = 30;
const STARTS_MAX = 10_000;
const CODES_PER_PERSON = 15;
const CODES_PER_NETWORK = 60;

export interface DeviceLogin {
  readonly id: string;
  /** The name that the program gave itself. */
  readonly client: string;
  /** The network that asked for the code. */
  readonly network: string;
  readonly createdAt: number;
}

export interface StartedLogin {
  readonly deviceCode: string;
  /** Eight consonants with a hyphen in the middle. */
  readonly userCode: string;
}

export interface DeviceViewer {
  readonly personId: string;
  readonly network: string;
  readonly userCode: string;
  readonly now: number;
}

interface Approval extends DeviceViewer, KeyLimit {
  readonly accountId: string;
}

export type PolledLogin =
  | { readonly status: "issued"; readonly key: string; readonly email: string }
  | { readonly status: "pending" | "expired" | "denied" | "unknown" }
  | { readonly status: "too_fast"; readonly intervalMs: number };

export interface DeviceLogins {
  readonly start: (
    tx: Tx,
    request: { readonly client: string; readonly clientIp: string; readonly now: number },
  ) => Promise<StartedLogin>;
  /** Counts as a try of a code. Undefined if no program waits for it. */
  readonly find: (tx: Tx, viewer: DeviceViewer) => Promise<DeviceLogin | undefined>;
  /** Throws if the person may not create the key. Undefined if no program waits for the code. */
  readonly approve: (tx: Tx, viewer: Approval) => Promise<DeviceLogin | undefined>;
  readonly deny: (tx: Tx, viewer: DeviceViewer) => Promise<DeviceLogin | undefined>;
  /** Throws, and changes nothing, if the person may no longer create the key. */
  readonly poll: (
    tx: Tx,
    request: { readonly deviceCode: string; readonly clientIp: string; readonly now: number },
  ) => Promise<PolledLogin>;
}

export function createDeviceLogins({
  master,
  keys,
}: {
  readonly master: MasterSecret;
  readonly keys: Keys;
}): DeviceLogins {
  const deviceKey = deriveKey(master, "device-login/device-code/v1");
  const userKey = deriveKey(master, "device-login/user-code/v1");

  const waiting: DeviceLogins["find"] = async (tx, viewer) => {
    await countTry(tx, viewer);
    const code = normalizeUserCode(viewer.userCode);
    return code === undefined
      ? undefined
      : findWaiting(tx, fingerprints(userKey, code), viewer.now);
  };

  return {
    start: async (tx, { client, clientIp, now }) => {
      await countStart(tx, clientIp, now);
      const deviceCode = randomBase62(DEVICE_CODE_CHARACTERS);
      const code = randomConsonants(USER_CODE_CHARACTERS);
      await tx.run(
        `insert into device_login (id, device_code_hash, user_code_hash, client, network, created_at, expires_at, interval_ms)
         values (?, ?, ?, ?, ?, ?, ?, ?)`,
        [
          newId("dev", now),
          fingerprint(deviceKey, deviceCode),
          fingerprint(userKey, code),
          client,
          networksOf(clientIp)[1],
          now,
          now + LIFETIME_MS,
          INTERVAL_MS,
        ],
      );
      return { deviceCode, userCode: `${code.slice(0, 4)}-${code.slice(4)}` };
    },
    find: waiting,
    approve: async (tx, viewer) => {
      const login = await waiting(tx, viewer);
      if (login === undefined) return undefined;
      return (await setApproved(tx, login.id, viewer)) ? login : undefined;
    },
    deny: async (tx, viewer) => {
      const login = await waiting(tx, viewer);
      if (login === undefined) return undefined;
      const denied = await tx.run(
        "update device_login set denied_at = ? where id = ? and approved_at is null and denied_at is null",
        [viewer.now, login.id],
      );
      return denied === 1 ? login : undefined;
    },
    poll: async (tx, { deviceCode, clientIp, now }) => {
      const [current = "", former = current] = fingerprints(deviceKey, deviceCode);
      const found = await tx.get("select id from device_login where device_code_hash in (?, ?)", [
        current,
        former,
      ]);
      if (found === undefined) return { status: "unknown" };
      // Two polls at once must not both get a key.
      const [row] = await tx.lockMany("device_login", "id", [text(found, "id")]);
      return row === undefined ? { status: "unknown" } : poll(tx, row, { keys, clientIp, now });
    },
  };
}

async function findWaiting(
  tx: Tx,
  [current = "", former = current]: readonly string[],
  now: number,
): Promise<DeviceLogin | undefined> {
  const row = await tx.get(
    `select * from device_login where user_code_hash in (?, ?) and expires_at > ?
     and approved_at is null and denied_at is null`,
    [current, former, now],
  );
  return row === undefined ? undefined : toLogin(row);
}

/** False if it was decided meanwhile. */
async function setApproved(
  tx: Tx,
  id: string,
  { accountId, personId, limit, limitWindow, network, now }: Approval,
): Promise<boolean> {
  const actor = { type: "person", id: personId } as const;
  await authorize(tx, { accountId, actor, network, now }, "keys.create");
  const approved = await tx.run(
    `update device_login set approved_at = ?, person_id = ?, account_id = ?, limit_nano = ?, limit_window = ?
     where id = ? and approved_at is null and denied_at is null`,
    [now, personId, accountId, limit, limitWindow, id],
  );
  if (approved === 0) return false;
  await recordAuditEntry(tx, {
    accountId,
    actor,
    action: "device.approved",
    target: id,
    network,
    now,
  });
  return true;
}

interface Poll {
  readonly keys: Keys;
  readonly clientIp: string;
  readonly now: number;
}

async function poll(tx: Tx, row: Row, request: Poll): Promise<PolledLogin> {
  const { now } = request;
  const id = text(row, "id");
  if (textOrNull(row, "key_id") !== null) {
    await revokeIssued(tx, row, request);
    return { status: "unknown" };
  }
  if (integerOrNull(row, "denied_at") !== null) return { status: "denied" };
  if (integer(row, "expires_at") <= now) return { status: "expired" };
  const intervalMs = integer(row, "interval_ms");
  const polledAt = integerOrNull(row, "polled_at");
  if (polledAt !== null && now < polledAt + intervalMs) {
    const slower = Math.min(intervalMs + SLOW_DOWN_MS, INTERVAL_MAX_MS);
    await tx.run("update device_login set polled_at = ?, interval_ms = ? where id = ?", [
      now,
      slower,
      id,
    ]);
    return { status: "too_fast", intervalMs: slower };
  }
  await tx.run("update device_login set polled_at = ? where id = ?", [now, id]);
  return integerOrNull(row, "approved_at") === null
    ? { status: "pending" }
    : issue(tx, row, request);
}

/** The person's role and allowance count as they are now, not as they were at the approval. */
async function issue(tx: Tx, row: Row, { keys, clientIp, now }: Poll): Promise<PolledLogin> {
  const accountId = text(row, "account_id");
  const personId = text(row, "person_id");
  const { key, raw } = await createKeyForMember(
    tx,
    personAct(accountId, personId, { clientIp, now }),
    keys,
    deviceKeySettings(
      text(row, "client"),
      {
        limit: toNano(row["limit_nano"]),
        limitWindow: toLimitWindow(textOrNull(row, "limit_window")),
      },
      now,
    ),
  );
  await tx.run("update device_login set key_id = ? where id = ?", [key.id, text(row, "id")]);
  const person = await tx.get("select email from person where id = ?", [personId]);
  return { status: "issued", key: raw, email: person === undefined ? "" : text(person, "email") };
}

/** What a person approves: calls of models, and nothing else of the workspace. */
export function deviceKeySettings(client: string, limit: KeyLimit, now: number): KeySettings {
  return {
    ...limit,
    name: `${client} (signed in with a browser)`,
    scopes: MODEL_CALL_SCOPES,
    expiresAt: now + KEY_LIFETIME_MS,
  };
}

/** A code that is used twice may have been stolen (RFC 6749, section 10.5), so the key of the first use ends. */
async function revokeIssued(tx: Tx, row: Row, { clientIp, now }: Poll): Promise<void> {
  const act = personAct(text(row, "account_id"), text(row, "person_id"), { clientIp, now });
  await revokeKey(tx, act, text(row, "key_id"));
}

export async function sweepDeviceLogins(tx: Tx, now: number): Promise<void> {
  await tx.run(
    `delete from device_login where id in (select id from device_login where expires_at < ? order by id limit ${DELETE_MAX})`,
    [now - RETENTION_MS],
  );
}

function toLogin(row: Row): DeviceLogin {
  return {
    id: text(row, "id"),
    client: text(row, "client"),
    network: text(row, "network"),
    createdAt: integer(row, "created_at"),
  };
}

/** People type the code in lower case and with or without the hyphen. */
function normalizeUserCode(typed: string): string | undefined {
  const code = typed.toUpperCase().replaceAll(/[\s-]/g, "");
  return /^[B-DF-HJ-NP-TV-XZ]{8}$/.test(code) ? code : undefined;
}

async function countStart(tx: Tx, clientIp: string, now: number): Promise<void> {
  const limit = { scope: "device start", windowMs: WINDOW_MS, max: STARTS_MAX };
  const limits = strangerLimits(clientIp, { ...limit, perNetwork: STARTS_PER_NETWORK });
  for (const one of limits) await count(tx, one, now);
}

async function countTry(tx: Tx, { personId, network, now }: DeviceViewer): Promise<void> {
  await count(
    tx,
    { scope: `device code ${personId}`, windowMs: WINDOW_MS, max: CODES_PER_PERSON },
    now,
  );
  await count(
    tx,
    { scope: `device code ${network}`, windowMs: WINDOW_MS, max: CODES_PER_NETWORK },
    now,
  );
}

async function count(tx: Tx, limit: WindowLimit, now: number): Promise<void> {
  if (await incrementUpTo(tx, { ...limit, now })) return;
  throw new Fault("rate_limited", `too many of ${limit.scope}`, {
    message:
      "Too many sign-in attempts came from you or your network. Wait ten minutes and try again.",
    retryAfterSeconds: Math.ceil(WINDOW_MS / 1_000),
  });
}
