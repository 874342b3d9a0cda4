// The generated parts of the documents: settings, endpoints, commands, layers. `npm run docs` writes them, and a test
// compares them.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  hasPermission,
  type Permission,
  ROLE_PERMISSIONS,
  ROLES,
} from "../../../src/accounts/members.ts";
import { COMMANDS } from "../../../src/commands/commands.ts";
import { usageLine } from "../../../src/commands/help.ts";
import { readConfig, SETTINGS } from "../../../src/config/config.ts";
import { type Route, requiresKey } from "../../../src/http/route.ts";
import { grantedScopes, SCOPE_NAMES, SCOPES } from "../../../src/http/scopes.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { SERVER_TOOLS } from "../../../src/models/tables/server-tool-prices.ts";
import { createServer } from "../../../src/server/server.ts";
import { ABANDONED_KINDS, abandonedCallRows } from "./abandoned-calls-table.ts";
import { abilityTables } from "./ability-tables.ts";
import { IMPORT_LAW } from "./import-law.ts";
import { readText, ROOT } from "./source-files.ts";
import { storageSchema } from "./storage-schema.ts";

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

/** The documents with generated parts, each between `<!-- name -->` and `<!-- /name -->`. */
const PARTS: Readonly<
  Record<string, readonly [name: string, part: (routes: readonly Route[]) => string]>
> = {
  "docs/site/settings.md": ["settings", () => settingsTables()],
  "docs/site/endpoints.md": ["endpoints", endpointTable],
  "docs/site/commands.md": ["commands", () => commandTable()],
  "docs/site/models.md": ["tools", () => toolTable()],
  "docs/site/abilities.md": ["abilities", abilityTables],
  "docs/site/keys.md": ["access", () => scopeTable()],
  "docs/site/security.md": ["roles", () => roleTable()],
  "docs/site/providers.md": [
    "abandoned",
    () => table(["Provider", ...Object.keys(ABANDONED_KINDS)], abandonedCallRows()),
  ],
  "docs/architecture.md": ["layers", () => layerDiagram()],
  "docs/storage-schema.md": ["tables", () => storageSchema()],
};

/** Each generated document as it is on disk, and as it must be. */
export function generatedDocs(
  routes: readonly Route[],
): readonly { readonly file: string; readonly current: string; readonly expected: string }[] {
  return Object.entries(PARTS).map(([file, [name, part]]) => {
    const current = readText(file);
    return { file, current, expected: replacePart(file, current, name, part(routes)) };
  });
}

function replacePart(file: string, text: string, name: string, part: string): string {
  const place = new RegExp(`(<!-- ${name} -->\n)[\\s\\S]*?(<!-- /${name} -->)`);
  if (!place.test(text)) throw new Error(`${file} has no <!-- ${name} --> … <!-- /${name} -->`);
  return text.replace(place, (_, open: string, close: string) => `${open}\n${part}\n\n${close}`);
}

/** What scopes allow. */
function scopeTable(): string {
  const scopes = SCOPE_NAMES.map((scope) => [
    `\`${scope}\``,
    `${SCOPES[scope].charAt(0).toUpperCase()}${SCOPES[scope].slice(1)}.`,
    grantedScopes(null, true).has(scope) ? "yes" : "no",
  ]);
  return table(["Scope", "A key with it can", "With a limit"], scopes);
}

/** What each role may do. */
function roleTable(): string {
  // Safe because these are the keys of the table.
  const permissions = Object.keys(ROLE_PERMISSIONS) as Permission[];
  const roles = permissions.map((permission) => [
    `\`${permission}\``,
    ...ROLES.map((role) => (hasPermission(role, permission) ? "yes" : "no")),
  ]);
  return table(["Action", ...ROLES], roles);
}

/** What providers charge for the tools that they run. */
function toolTable(): string {
  return table(
    ["Provider", "Tool", "Price (USD)", "Per", "Source, checked on"],
    SERVER_TOOLS.map(({ providers, title, fee, source, checked }) => [
      providers
        .map((id) => PROVIDERS.find((provider) => provider.id === id)?.name ?? id)
        .join(", "),
      title,
      fee === undefined ? "tokens only" : String(fee.usd),
      fee?.unit ?? "",
      `[${new URL(source).host}](${source}), ${checked ?? "not checked"}`,
    ]),
  );
}

function commandTable(): string {
  return table(
    ["Command", "What it does"],
    Object.entries(COMMANDS).map(([name, command]) => [
      `\`postern ${usageLine(name, command)}\``,
      `${command.summary}.`,
    ]),
  );
}

/** The import law as a diagram: an arrow goes from a folder to the highest folders that it imports. */
function layerDiagram(): string {
  const arrows = Object.entries(IMPORT_LAW).flatMap(([folder, allowed]) =>
    allowed
      .filter((other) => !allowed.some((third) => reaches(third, other)))
      .map((other) => `  ${nodeOf(folder)} --> ${nodeOf(other)}`),
  );
  return ["```mermaid", "flowchart TD", ...arrows, "```"].join("\n");
}

function nodeOf(folder: string): string {
  return `${folder.replaceAll("-", "_")}[${folder}]`;
}

function reaches(from: string, to: string): boolean {
  const direct = IMPORT_LAW[from] ?? [];
  return direct.includes(to) || direct.some((next) => reaches(next, to));
}

/** The sections of the settings page. A setting is in the first whose pattern matches. */
const SETTING_SECTIONS: readonly (readonly [title: string, names: RegExp])[] = [
  [
    "Address and store",
    /^POSTERN_(PORT|HOST|BASE_URL|DOCS_URL|DATA_DIR|COMMIT|TRUSTED_PROXIES)$|^DATABASE_URL$/,
  ],
  ["Secret and names", /^POSTERN_(SECRET|SECRET_PREVIOUS|KEY_PREFIX|VENDOR|SECURITY_CONTACT)$/],
  ["Sign-in", /^OIDC_|^POSTERN_IDENTITY_|^POSTERN_CLIENT_DOCUMENTS$/],
  [
    "Models and providers",
    /^POSTERN_(MODELS|PRICES|ALLOW|ANTHROPIC|REQUEST_TIMEOUT|STREAM)_|^(VERTEX|BEDROCK)_/,
  ],
  ["Web search", /^POSTERN_(SEARCH|WEB_FETCH)(_|$)/],
  [
    "New accounts and claims",
    /^POSTERN_(ACCOUNTS|GRANT|PROOF_OF_WORK|VERIFIED_AGENTS|CLAIM|CLAIMS)(_|$)/,
  ],
  ["Limits", /^POSTERN_(REQUESTS|OPEN_CALLS|FETCHED_FILES|CONNECTIONS)_/],
  ["Stored responses and usage records", /^POSTERN_(STORE_RESPONSES|RESPONSE_|PROMPT_|USAGE_)/],
  ["Data policy", /^POSTERN_(DATA_POLICY|ZDR_PROVIDERS)$/],
  [
    "Operators and alerts",
    /^POSTERN_(OPERATORS|OPERATOR_APPROVAL|ALERT_.*|VERIFY_LEDGER_HOURS|LEDGER_PROOFS)$/,
  ],
  ["Email", /^POSTERN_(SMTP_URL|EMAIL_FROM)$/],
  [
    "Purchases and receipts",
    /^POSTERN_((INVOICE|OPERATOR|BANK)_|(TERMS|PRIVACY|DPA|SUBPROCESSORS)_URL)/,
  ],
  ["Stripe", /^STRIPE_/],
  ["x402", /^X402_/],
  ["Tempo", /^TEMPO_/],
  ["Logs, metrics and traces", /^POSTERN_(LOG|METRICS)_|^OTEL_/],
  [
    "Processes and shutdown",
    /^POSTERN_(PROCESS_NAME|DATABASE_POOL_SIZE|WORKER_PORT|SHUTDOWN_.*|DRAIN_.*)$/,
  ],
];

function settingsTables(): string {
  const settings = [...Object.entries(SETTINGS), ...accountSettings()].map(
    ([name, { defaultValue, description }]) => ({
      section: SETTING_SECTIONS.find(([, names]) => names.test(name))?.[0],
      name,
      cells: [
        `\`${name}\``,
        defaultValue === "" ? "not set" : defaultValue.replaceAll(/[<>]/g, (mark) => `\\${mark}`),
        description.replaceAll(/`docs\/site\/([\w-]+)\.md(#[\w-]+)?`/g, "[$1]($1.md$2)"),
      ],
    }),
  );
  const unlisted = settings.find(({ section }) => section === undefined);
  if (unlisted !== undefined) throw new Error(`Add ${unlisted.name} to SETTING_SECTIONS`);
  return SETTING_SECTIONS.map(([title]) => {
    const rows = settings
      .filter(({ section }) => section === title)
      .sort((left, right) => (left.name < right.name ? -1 : 1))
      .map(({ cells }) => cells);
    return `## ${title}\n\n${table(["Setting", "Default", "Description"], rows)}`;
  }).join("\n\n");
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

const CREDENTIALS = {
  none: "none",
  optionalKey: "none, or key",
  scimToken: "SCIM token",
  metricsToken: "metrics token",
} as const;

function endpointTable(routes: readonly Route[]): string {
  return table(
    ["Method and path", "Auth", "Description"],
    routes
      .filter((route) => route.hidden !== true)
      .map((route) => [
        `\`${route.method} ${route.path}\``,
        requiresKey(route) ? "key" : CREDENTIALS[route.credential ?? "none"],
        `${route.summary}.`,
      ]),
  );
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", String.raw`\|`)).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

if (import.meta.main) {
  for (const { file, expected } of generatedDocs(await defaultRoutes()))
    writeFileSync(path.join(ROOT, file), expected);
}
