// Routes of /v1/account/response-storage.

import { z } from "zod";
import { keyAct } from "../../activity/audit.ts";
import { type ResponseStorage, STORE_MODES } from "../../base/response-storage.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../../http/route.ts";
import type { Db } from "../../store/db.ts";
import { changeStorage, readStorage, type StorageState } from "./response-storage-settings.ts";

export interface StorageRouteDeps {
  readonly db: Db;
  /** The operator's setting. */
  readonly storage: ResponseStorage;
  /** Called after a change: what a key may store is looked up with it. */
  readonly onStorageChanged: () => void;
}

const DOC = { tag: "Accounts", path: "/v1/account/response-storage", dialect: "openai" } as const;

const RETENTION_DAYS_MAX = 365;

const StoreMode = z.enum(STORE_MODES).meta({
  description:
    "`by_default` stores every response without `store: false`, `on_request` those with `store: true`, `never` none.",
});

const StorageRecord = z
  .object({
    store: StoreMode,
    retention_days: z.int().meta({ description: "Days after which a response is deleted." }),
    operator: z
      .object({ store: StoreMode, retention_days: z.int() })
      .meta({ description: "The gateway's setting. An account can only be stricter." }),
    stored: z.object({
      responses: z.int(),
      bytes: z.int().meta({ description: "Size of inputs and responses before encryption." }),
    }),
  })
  .meta({ id: "ResponseStorage" });

const StorageSettings = z
  .strictObject({
    store: StoreMode.optional(),
    retention_days: z
      .int()
      .min(1)
      .max(RETENTION_DAYS_MAX)
      .optional()
      .meta({ description: `1 to ${RETENTION_DAYS_MAX} days.` }),
  })
  .meta({ id: "ResponseStorageSettings" });

const RESPONSES = oneResponse("The setting and what is stored.", StorageRecord, {
  store: "by_default",
  retention_days: 30,
  operator: { store: "by_default", retention_days: 30 },
  stored: { responses: 12, bytes: 48_213 },
});

export function storageRoutes(deps: StorageRouteDeps): readonly Route[] {
  return [readRoute(deps), changeRoute(deps)];
}

function readRoute({ db, storage }: StorageRouteDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    id: "getResponseStorage",
    scope: "models:read",
    summary: "Get the settings of stored responses",
    responses: RESPONSES,
    faults: [],
    run: async ({ caller }) => ({
      status: 200,
      body: toStorageRecord(await readStorage(db, storage, caller.accountId)),
    }),
  });
}

function changeRoute({ storage, onStorageChanged }: StorageRouteDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "PATCH",
    id: "changeResponseStorage",
    scope: "account:write",
    summary: "Change the settings of stored responses",
    description:
      "Only the fields in the request are changed, and a looser value than the gateway's has no effect. Stored responses that the new setting does not allow become unreadable at once and are deleted within ten minutes; other processes of the gateway apply the setting within five seconds. In a claimed account, only the owner and admins can change it, in the console.",
    body: StorageSettings,
    requestExample: { store: "on_request", retention_days: 7 },
    responses: RESPONSES,
    faults: ["forbidden"],
    run: async (tx, { caller, body, clientIp, now }) => {
      const after = await changeStorage(tx, keyAct(caller, { clientIp, now }), storage, {
        ...(body.store === undefined ? {} : { mode: body.store }),
        ...(body.retention_days === undefined ? {} : { retentionDays: body.retention_days }),
      });
      return { status: 200, body: toStorageRecord(after), afterCommit: onStorageChanged };
    },
  });
}

function toStorageRecord({
  storage,
  operator,
  responses,
  bytes,
}: StorageState): z.infer<typeof StorageRecord> {
  return {
    store: storage.mode,
    retention_days: storage.retentionDays,
    operator: { store: operator.mode, retention_days: operator.retentionDays },
    stored: { responses, bytes },
  };
}
