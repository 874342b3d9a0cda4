// Writes the README's tables of settings and endpoints out of the program itself: `npm run readme`. The tidy test
// compares, so that neither can go stale.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { readConfig, SETTINGS } from "../../../src/config/config.ts";
import { createServer } from "../../../src/server/server.ts";
import type { Route } from "../../../src/http/route.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { readText, ROOT } from "./source-files.ts";

/** The routes that a gateway mounts when no setting is set. */
export async function defaultRoutes(): Promise<readonly Route[]> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-routes-"));
  const read = readConfig({ env: { POSTERN_DATA_DIR: folder }, hostName: "test", providers: [] });
  if (!read.ok) throw new Error(read.errors.join("; "));
  const noop = (): void => {};
  const server = await createServer(read.config, {
    log: { debug: noop, info: noop, warn: noop, error: noop },
    now: Date.now,
    version: "0.0.0",
    onFatal: noop,
  });
  await server.close();
  rmSync(folder, { recursive: true, force: true });
  return server.routes;
}

export function readmeWithTables(readme: string, routes: readonly Route[]): string {
  return replaceBetween(
    replaceBetween(readme, "settings", settingsTable()),
    "endpoints",
    endpointTable(routes),
  );
}

function replaceBetween(text: string, name: string, table: string): string {
  const marks = new RegExp(`(<!-- ${name} -->\n)[\\s\\S]*?(<!-- /${name} -->)`);
  if (!marks.test(text)) throw new Error(`README.md has no marks <!-- ${name} -->`);
  return text.replace(marks, (_, open: string, close: string) => `${open}\n${table}\n\n${close}`);
}

function settingsTable(): string {
  return table(
    ["Setting", "Default", "What it is for"],
    [...Object.entries(SETTINGS), ...accountSettings()].map(
      ([name, { defaultValue, description }]) => [
        `\`${name}\``,
        defaultValue === "" ? "not set" : defaultValue.replaceAll(/[<>]/g, (mark) => `\\${mark}`),
        description,
      ],
    ),
  );
}

/** What the accounts at some providers need beside a key and an address, by the names of the variables. */
export function accountSettings(): readonly (readonly [
  string,
  { readonly defaultValue: string; readonly description: string },
])[] {
  return PROVIDERS.flatMap(({ envPrefix, settings = [] }) =>
    settings.map((setting) => [`${envPrefix}_${setting.name}`, setting] as const),
  );
}

function endpointTable(routes: readonly Route[]): string {
  return table(
    ["Method and path", "Auth", "What it does"],
    routes
      .filter((route) => route.hidden !== true)
      .map((route) => [
        `\`${route.method} ${route.path}\``,
        route.auth === "key" ? "key" : "none",
        `${route.summary}.`,
      ]),
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", String.raw`\|`)).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

if (import.meta.main)
  writeFileSync(
    path.join(ROOT, "README.md"),
    readmeWithTables(readText("README.md"), await defaultRoutes()),
  );
