// `postern doctor` in a data folder that it may not write, such as one of another user, and on a full disk.

import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { checkFreeSpace } from "../../src/commands/doctor/check-store.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { skipUnless } from "../support/skip.ts";

const MAIN = path.resolve(import.meta.dir, "../../src/main.ts");
const isRoot = process.getuid?.() === 0;
/** Root may write everything. */
const SETPRIV = "setpriv";
const asOtherUser = [SETPRIV, "--reuid", "65534", "--regid", "65534", "--clear-groups"];
const canRun = !isRoot || spawnSync(SETPRIV, ["--version"]).status === 0;

test.skipIf(skipUnless(canRun, "setpriv is missing: install util-linux"))(
  "reports a read-only store as a finding",
  async () => {
    const source = mkdtempSync(path.join(tmpdir(), "postern-doctor-"));
    const folder = mkdtempSync(path.join(tmpdir(), "postern-doctor-"));
    const db = openSqlite({ folder: source, lock: false });
    await migrate(db, 1);
    // With the write-ahead log of a process that was killed.
    cpSync(source, folder, { recursive: true });
    await db.close();
    for (const file of readdirSync(folder)) chmodSync(path.join(folder, file), 0o444);
    chmodSync(folder, 0o555);
    const { stdout, stderr } = runDoctor(folder, []);
    expect(stderr).toBe("");
    expect(stdout).toMatch(/fail {2}store .*readonly database/);
    expect(stdout).toContain("problem to fix");
    chmodSync(folder, 0o755);
    for (const created of [source, folder]) rmSync(created, { recursive: true, force: true });
  },
);

// Only root can create a folder of another user.
test.skipIf(skipUnless(isRoot && canRun, "run the tests as root with setpriv"))(
  "says which modes --fix cannot change",
  () => {
    const folder = mkdtempSync(path.join(tmpdir(), "postern-doctor-"));
    chmodSync(folder, 0o755);
    const { stdout, stderr } = runDoctor(folder, ["--fix"]);
    expect(stderr).toBe("");
    expect(stdout).toContain(`not fixed: ${folder} is readable by others; run the command as`);
    expect(stdout).toContain(`not fixed: the data folder ${folder} cannot be used`);
    expect(stdout).not.toContain("EPERM");
    rmSync(folder, { recursive: true });
  },
);

test("fails on a full disk, and warns of one that is nearly full", () => {
  const statusOf = (free: number): readonly string[] =>
    checkFreeSpace("data", free).map(({ status }) => status);
  expect(statusOf(0)).toEqual(["fail"]);
  expect(statusOf(500_000_000)).toEqual(["warn"]);
  expect(statusOf(2_000_000_000)).toEqual([]);
});

function runDoctor(folder: string, flags: readonly string[]) {
  const [program, ...prefix] = isRoot ? asOtherUser : ["env"];
  const args = [...prefix, process.execPath, MAIN, "doctor", ...flags];
  const env = { PATH: process.env["PATH"], HOME: tmpdir(), POSTERN_DATA_DIR: folder };
  return spawnSync(program ?? "env", args, { env, encoding: "utf8" });
}
