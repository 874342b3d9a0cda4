// `postern doctor`: checks everything that a gateway needs, and says how to fix what is wrong.

import { chmodSync, existsSync, mkdirSync, statSync } from "node:fs";
import path from "node:path";
import type { Config } from "../../config/config.ts";
import { priceAge, STALE_PRICE_DAYS } from "../../models/catalog.ts";
import { createLiveCatalog, modelsFileAt, readPriceTable } from "../../models/live-catalog.ts";
import {
  findConnectionLimits,
  UNLIMITED_HINT,
  UNLIMITED_MESSAGE,
} from "../../server/connections/connection-guard.ts";
import { upgradeStore } from "../../server/upgrade-store.ts";
import type { StoreSettings } from "../../store/open.ts";
import { exportSpans } from "../../telemetry/otlp-export.ts";
import { booleanFlag, type CliEnv, type Command, EXIT_FAILURE, EXIT_USAGE } from "../command.ts";
import { errorMessage } from "../with-store.ts";
import { checkTempo, checkX402 } from "./check-agent-payments.ts";
import { checkProviders, type DeclaredProviders } from "./check-providers.ts";
import { checkServices } from "./check-services.ts";
import { checkStore } from "./check-store.ts";
import type { Finding } from "./finding.ts";

const CHECK_WIDTH = 11;

export const doctor: Command = {
  summary: "Check settings, store, provider keys and prices",
  details:
    "Changes nothing without --fix. Requests the model list of each provider whose key is set, which is free.\nExit code 1 if something must be fixed, 2 if a setting is invalid.",
  positionals: [],
  flags: {
    fix: booleanFlag(
      "First create the data folder, make its files private, and apply migrations, where needed.",
    ),
  },
  run: async (args, cli) => {
    cli.print(`Postern ${cli.version}\n`);
    const settings = cli.readConfig();
    if (args.has("fix") && settings.ok)
      for (const fixed of await fixStore(settings.config.store, cli.now)) cli.print(`  ${fixed}`);
    const findings = settings.ok
      ? [...(await runChecks(settings.config, cli))]
      : settings.errors.map(configErrorFinding);
    const failed = findings.filter(({ status }) => status === "fail").length;
    cli.print(findings.map(formatFinding).join("\n"));
    cli.print(
      `\n${summaryLine(failed)}${settings.ok ? "" : " The rest is checked once the settings are valid."}`,
    );
    if (failed === 0) return 0;
    return findings.some(({ isSetting }) => isSetting === true) ? EXIT_USAGE : EXIT_FAILURE;
  },
};

async function runChecks(config: Config, cli: CliEnv): Promise<readonly Finding[]> {
  const [store, providers, services, x402, tempo, telemetry] = await Promise.all([
    checkStore(config, cli.now()),
    checkProviders(config, declaredProviders(config, cli.now())),
    checkServices(config),
    checkX402(config),
    checkTempo(config),
    checkTelemetry(config),
  ]);
  return [
    ...checkSettings(config),
    ...checkConnections(config),
    ...store,
    ...providers,
    ...checkModels(config, cli.now()),
    ...services,
    ...checkPayments(config),
    ...x402,
    ...tempo,
    ...telemetry,
  ];
}

function configErrorFinding(error: string): Finding {
  return {
    status: "fail",
    check: "settings",
    message: error,
    effect: "postern serve does not start.",
    isSetting: true,
  };
}

function checkSettings(config: Config): readonly Finding[] {
  const mode = config.development
    ? "development: the base URL is a loopback address, so limits are off"
    : "production";
  return [
    { status: "ok", check: "settings", message: mode },
    ...(config.development ? [] : checkPublicAddress(config)),
    checkSecret(config),
  ];
}

function checkPublicAddress(config: Config): readonly Finding[] {
  const findings: Finding[] = [];
  if (!config.baseUrl.startsWith("https://"))
    findings.push({
      status: "fail",
      check: "address",
      message: `${config.baseUrl} is not https`,
      effect: "API keys and session cookies are sent in clear text, and people cannot sign in.",
      hint: "Put a TLS proxy in front of the gateway and set POSTERN_BASE_URL to its https:// URL.",
    });
  if (config.trustedProxies.length === 0)
    findings.push({
      status: "warn",
      check: "address",
      message: "no proxy is trusted",
      effect:
        "Behind a proxy all clients share one address: its limits refuse new accounts with 429.",
      hint: "Set POSTERN_TRUSTED_PROXIES to the proxy's address or network.",
    });
  return findings;
}

function checkSecret(config: Config): Finding {
  if (config.secret !== undefined)
    return { status: "ok", check: "secret", message: "POSTERN_SECRET is set" };
  return {
    status: "note",
    check: "secret",
    message: `generated on the first start in ${config.store.dataDir}/secret; without that file every API key stops working`,
  };
}

function checkPayments({ billing, development }: Config): readonly Finding[] {
  if (billing.stripe !== undefined) return [];
  if (development)
    return [
      {
        status: "note",
        check: "payments",
        message: "simulated payments (development)",
      },
    ];
  return [
    {
      status: "warn",
      check: "payments",
      message: "no payment processor is set",
      effect: "Customers cannot pay online: mark invoices as paid with postern admin mark-paid.",
      hint: "Set STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET to accept Stripe payments.",
    },
  ];
}

function formatFinding({ status, check, message, effect, hint }: Finding): string {
  const head = `  ${status.padEnd(4)}  ${check.padEnd(CHECK_WIDTH)} `;
  const indent = `\n${" ".repeat(head.length)}`;
  return `${head}${[message, effect, hint].filter((text) => text !== undefined).join(indent)}`;
}

function summaryLine(failed: number): string {
  if (failed === 0) return "No problems found.";
  return failed === 1 ? "1 problem to fix." : `${failed} problems to fix.`;
}

const TELEMETRY_TIMEOUT_MS = 5_000;

/** Sends the collector an export without spans. No finding if telemetry is off. */
async function checkTelemetry({ telemetry }: Config): Promise<readonly Finding[]> {
  if (telemetry === undefined) return [];
  const collector = `the collector at ${new URL(telemetry.url).host}`;
  const sent = await exportSpans(telemetry, '{"resourceSpans":[]}', TELEMETRY_TIMEOUT_MS);
  if (sent.kind === "accepted")
    return [{ status: "ok", check: "telemetry", message: `${collector} accepts spans` }];
  // A warning, because calls work without it.
  return [
    {
      status: "warn",
      check: "telemetry",
      message: `${collector} does not accept spans: ${sent.reason}`,
      effect: "Traces of calls are lost; calls work.",
      hint: "Check that OTEL_EXPORTER_OTLP_ENDPOINT is its HTTP URL (usually port 4318), and which OTEL_EXPORTER_OTLP_HEADERS it needs.",
    },
  ];
}

/** The limit of connections per network. No finding in development, where it is off. */
function checkConnections({ development, limits }: Config): readonly Finding[] {
  if (development && limits.connectionsPerNetwork === 0) return [];
  const found = findConnectionLimits(limits.connectionsPerNetwork);
  if (found === "off")
    return [
      {
        status: "note",
        check: "connections",
        message: "connections per network are not limited: POSTERN_CONNECTIONS_PER_NETWORK is 0",
      },
    ];
  if (found === "unavailable")
    return [
      {
        status: "warn",
        check: "connections",
        message: UNLIMITED_MESSAGE,
        effect: "One client can use all connections, so that others cannot connect.",
        hint: UNLIMITED_HINT,
      },
    ];
  found.sockets.close();
  const { perNetwork, perWiderNetwork } = found.limits;
  const message = `at most ${perNetwork} per IPv4 address or IPv6 /64, ${perWiderNetwork} per /24 or /48`;
  return [{ status: "ok", check: "connections", message }];
}

/** The providers that the models file declares; none if it cannot be read, which the check of models reports. */
function declaredProviders({ modelsFile }: Config, now: number): DeclaredProviders {
  const none = { providers: [], credentials: [] };
  if (modelsFile === undefined) return none;
  try {
    return createLiveCatalog({ now, file: modelsFileAt(modelsFile) }).current();
  } catch {
    return none;
  }
}

/** The models file and the age of the prices. */
function checkModels(config: Config, now: number): readonly Finding[] {
  const { modelsFile } = config;
  if (modelsFile !== undefined && modelsFileAt(modelsFile).stamp() === undefined)
    return [
      {
        status: "fail",
        check: "models",
        message: `POSTERN_MODELS_FILE: ${modelsFile} does not exist`,
        effect: "postern serve does not start.",
        isSetting: true,
        hint: "Create the file or remove the setting.",
      },
    ];
  try {
    const catalog = createLiveCatalog({
      now,
      prices: readPriceTable(config.pricesFile),
      ...(modelsFile === undefined ? {} : { file: modelsFileAt(modelsFile) }),
    }).current();
    const age = priceAge(catalog, now);
    const summary = `${catalog.models.length} models with prices, checked from ${age.oldest} to ${age.newest}`;
    if (age.days <= STALE_PRICE_DAYS) return [{ status: "ok", check: "prices", message: summary }];
    return [
      {
        status: "warn",
        check: "prices",
        message: `${summary}; the oldest are ${age.days} days old`,
        effect: "Calls may be charged less or more than the provider bills.",
        hint: "Update Postern, take a newer table with POSTERN_PRICES_FILE, or set changed prices in POSTERN_MODELS_FILE.",
      },
    ];
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return [
      {
        status: "fail",
        check: "models",
        message: message.replaceAll(/\n\s*/g, " "),
        effect: "postern serve does not start; a gateway that runs keeps the models that it had.",
        isSetting: true,
        hint: "Correct POSTERN_MODELS_FILE or POSTERN_PRICES_FILE, see docs/site/models.md.",
      },
    ];
  }
}

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const OTHERS = 0o077;
const PRIVATE_FILES = ["postern.db", "postern.db-wal", "postern.db-shm", "secret"];

/** Fixes what needs no decision of the operator. Returns a line for each fix, and for what could not be fixed. */
async function fixStore(settings: StoreSettings, now: () => number): Promise<readonly string[]> {
  const folder = settings.databaseUrl === undefined ? fixFolder(settings.dataDir) : [];
  try {
    return [...folder, ...(await applyMigrations(settings, now))];
  } catch (error) {
    return [...folder, `not fixed: ${errorMessage(error)}`];
  }
}

function fixFolder(folder: string): readonly string[] {
  const fixed: string[] = [];
  if (!existsSync(folder)) {
    // Opening the store then says why.
    if (!succeeds(() => mkdirSync(folder, { recursive: true, mode: FOLDER_MODE }))) return [];
    fixed.push(`fixed: created the data folder ${folder}`);
  }
  // Windows has no such modes.
  if (process.platform === "win32") return fixed;
  for (const [name, mode] of [
    ["", FOLDER_MODE] as const,
    ...PRIVATE_FILES.map((file) => [file, FILE_MODE] as const),
  ]) {
    const file = path.resolve(folder, name);
    if (!existsSync(file) || (statSync(file).mode & OTHERS) === 0) continue;
    fixed.push(
      succeeds(() => chmodSync(file, mode))
        ? `fixed: made ${file} readable only by its owner`
        : `not fixed: ${file} is readable by others; run the command as its owner`,
    );
  }
  return fixed;
}

function succeeds(change: () => void): boolean {
  try {
    change();
    return true;
  } catch {
    return false;
  }
}

async function applyMigrations(
  settings: StoreSettings,
  now: () => number,
): Promise<readonly string[]> {
  const lines: string[] = [];
  await upgradeStore(settings, {
    now,
    onBackup: (file) => lines.push(`fixed: backed up the store to ${file}`),
    onApplied: (name, ms) => lines.push(`fixed: applied ${name} in ${ms} ms`),
  });
  return lines;
}
