// Errors of a store that cannot be opened name the setting and the fix.

import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { secret } from "../../src/base/crypto/secret.ts";
import { openStore } from "../../src/store/open.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { testPostgres } from "../support/stores/postgres.ts";

describe("a data folder", () => {
  test("with a file that is not a SQLite file names the file and the setting", async () => {
    for (const name of ["postern.db", "postern.lock"]) {
      const dataDir = scratchFolder();
      writeFileSync(path.join(dataDir, name), "not a database ".repeat(100));
      expect(await rejectionMessage(openStore({ dataDir }, true))).toMatch(
        /^postern\.db or postern\.lock in \/.+ is not a SQLite file .+\(SQLITE_NOTADB\).+POSTERN_DATA_DIR/,
      );
      rmSync(dataDir, { recursive: true });
    }
  });

  test("that is not a folder or cannot be created names the setting", async () => {
    const folder = scratchFolder();
    writeFileSync(path.join(folder, "file"), "");
    for (const dataDir of [path.join(folder, "file"), path.join(folder, "file", "data")])
      expect(await rejectionMessage(openStore({ dataDir }, true))).toMatch(
        /^the data folder \/.+ cannot be used \((EEXIST|ENOTDIR)\): set POSTERN_DATA_DIR/,
      );
    mkdirSync(path.join(folder, "data", "postern.db"), { recursive: true });
    expect(await rejectionMessage(openStore({ dataDir: path.join(folder, "data") }, true))).toMatch(
      /cannot be written \(SQLITE_CANTOPEN\).*chown.*or set POSTERN_DATA_DIR/,
    );
    rmSync(folder, { recursive: true });
  });

  test("contains files that only their owner can read", async () => {
    const dataDir = scratchFolder();
    chmodSync(dataDir, 0o755);
    const db = await openStore({ dataDir }, true);
    await db.write((tx) => tx.run("create table one (id text primary key)"));
    const names = readdirSync(dataDir);
    expect(names).toContain("postern.db-wal");
    for (const name of names)
      expect([name, statSync(path.join(dataDir, name)).mode & 0o777]).toEqual([name, 0o600]);
    await db.close();
    rmSync(dataDir, { recursive: true });
  });
});

test("a PostgreSQL error includes the server's message and the setting, but not the password", async () => {
  const at = (change: (url: URL) => void, url: URL): string => {
    change(url);
    return url.href;
  };
  const right = await testPostgres();
  const cases: readonly (readonly [(url: URL) => void, string])[] = [
    [(url) => (url.password = "hunter2"), "Check the user and password in DATABASE_URL"],
    [(url) => (url.pathname = "/nowhere"), '"nowhere" does not exist. Create the database'],
    [(url) => (url.port = "1"), "127.0.0.1:1 cannot be used: Failed to connect. Check that"],
    [(url) => (url.search = "sslmode=require"), "Check sslmode in DATABASE_URL"],
  ];
  for (const [change, expected] of cases) {
    const url = at(change, new URL(right));
    const message = await rejectionMessage(
      openStore({ dataDir: "", databaseUrl: secret(url) }, true),
    );
    expect(message).toContain(expected);
    expect(message).toStartWith("PostgreSQL at 127.0.0.1:");
    expect(message).not.toContain(new URL(url).password);
  }
});
