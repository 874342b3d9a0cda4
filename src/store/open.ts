// Opens the store that the settings name.

import type { Secret } from "../base/secret.ts";
import type { Db } from "./db.ts";
import { openPostgres } from "./postgres.ts";
import { openSqlite } from "./sqlite.ts";

export interface StoreSettings {
  readonly databaseUrl?: Secret;
  readonly dataDir: string;
}

/** Only a server locks the data folder; other commands work beside it. */
export function openStore(settings: StoreSettings, lock: boolean): Db {
  return settings.databaseUrl === undefined
    ? openSqlite({ folder: settings.dataDir, lock })
    : openPostgres(settings.databaseUrl.reveal());
}
