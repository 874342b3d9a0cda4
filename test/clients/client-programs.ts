// The coding agents that `npm run clients` installs, and where.

import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";

/** Outside the tree, so that one installation serves every checkout. */
export const CLIENTS_FOLDER =
  process.env["POSTERN_TEST_CLIENTS"] ?? path.join(homedir(), ".cache", "postern-clients");

export const CLIENTS = {
  claude: { package: "@anthropic-ai/claude-code", bin: "claude" },
  codex: { package: "@openai/codex", bin: "codex" },
  opencode: { package: "opencode-ai", bin: "opencode" },
  gemini: { package: "@google/gemini-cli", bin: "gemini" },
} as const satisfies Record<string, { readonly package: string; readonly bin: string }>;

export type ClientName = keyof typeof CLIENTS;

export interface ClientProgram {
  readonly command: string;
  readonly version: string;
}

/** Undefined if it is not installed. */
export function findClient(name: ClientName): ClientProgram | undefined {
  const { package: packageName, bin } = CLIENTS[name];
  const command = path.join(CLIENTS_FOLDER, "node_modules", ".bin", bin);
  if (!existsSync(command)) return undefined;
  const manifest = path.join(CLIENTS_FOLDER, "node_modules", packageName, "package.json");
  // A package has a version, or npm would not have installed it.
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly version: string };
  return { command, version };
}
