// `postern doctor`: checks everything that a gateway needs, and says how to fix what is wrong.

import type { Config } from "../../config/config.ts";
import { type Command, EXIT_FAILURE, type CliEnv } from "../command.ts";
import { checkTempo, checkX402 } from "./check-agent-payments.ts";
import { checkConnections } from "./check-connections.ts";
import { checkModels } from "./check-models.ts";
import { checkProviders } from "./check-providers.ts";
import { checkSignIn } from "./check-sign-in.ts";
import { checkStore } from "./check-store.ts";
import { checkStripe } from "./check-stripe.ts";
import { checkTelemetry } from "./check-telemetry.ts";
import type { Finding } from "./finding.ts";
import { fixStore } from "./fix-store.ts";

const CHECK_WIDTH = 11;

export const doctor: Command = {
  summary: "Check settings, store, provider keys and prices",
  details:
    "Changes nothing without --fix. Requests the model list of each provider whose key is set, which is free.\nExit code 1 if something must be fixed.",
  positionals: [],
  flags: {
    fix: {
      type: "boolean",
      description:
        "First create the data folder, make its files private, and apply migrations, where needed.",
    },
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
    return failed === 0 ? 0 : EXIT_FAILURE;
  },
};

async function runChecks(config: Config, cli: CliEnv): Promise<readonly Finding[]> {
  const [store, providers, signIn, stripe, x402, tempo, telemetry] = await Promise.all([
    checkStore(config, cli.now()),
    checkProviders(config.providers, config.development),
    checkSignIn(config),
    checkStripe(config.billing.stripe),
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
    ...signIn,
    ...stripe,
    ...checkPayments(config),
    ...x402,
    ...tempo,
    ...telemetry,
  ];
}

function configErrorFinding(error: string): Finding {
  return { status: "fail", check: "settings", message: error };
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
      message: `${config.baseUrl} is not https: keys would be sent in clear text`,
      hint: "Put a TLS proxy in front of the gateway and set POSTERN_BASE_URL to its https:// URL.",
    });
  if (config.trustedProxies.length === 0)
    findings.push({
      status: "warn",
      check: "address",
      message: "no proxy is trusted: behind a proxy all clients share one address and its limits",
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
      message: "no payment processor is set: mark invoices as paid with postern admin mark-paid",
      hint: "Set STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET to accept Stripe payments.",
    },
  ];
}

function formatFinding({ status, check, message, hint }: Finding): string {
  const head = `  ${status.padEnd(4)}  ${check.padEnd(CHECK_WIDTH)} `;
  return `${head}${message}${hint === undefined ? "" : `\n${" ".repeat(head.length)}${hint}`}`;
}

function summaryLine(failed: number): string {
  if (failed === 0) return "No problems found.";
  return failed === 1 ? "1 problem to fix." : `${failed} problems to fix.`;
}
