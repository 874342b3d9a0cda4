// `postern doctor`: looks at everything that a gateway needs, changes nothing, and says what is wrong and how to mend it.

import type { Finding } from "./finding.ts";
import type { Config } from "../../config/config.ts";
import { isLoopback } from "../listen-address.ts";
import { type Command, EXIT_FAILURE, type CliEnv } from "../command.ts";
import { checkSignIn } from "./check-sign-in.ts";
import { checkModels } from "./check-models.ts";
import { checkProviders } from "./check-providers.ts";
import { checkStore } from "./check-store.ts";
import { checkTelemetry } from "./check-telemetry.ts";
import { checkX402 } from "./check-x402.ts";

const CHECK_WIDTH = 11;

export const doctor: Command = {
  summary: "Check settings, store, provider keys and prices, and say how to mend what is wrong",
  details:
    "Changes nothing. Asks each provider whose key is set for its list of models, which costs nothing.\nExit code 1 where something must be mended.",
  positionals: [],
  flags: {},
  run: async (_line, cli) => {
    cli.print(`Postern ${cli.version}\n`);
    const settings = cli.readConfig();
    const findings = settings.ok
      ? [...(await runChecks(settings.config, cli))]
      : settings.errors.map(configErrorFinding);
    const failed = findings.filter(({ status }) => status === "fail").length;
    cli.print(findings.map(formatFinding).join("\n"));
    cli.print(
      `\n${summaryLine(failed)}${settings.ok ? "" : " The rest is checked once the settings can be read."}`,
    );
    return failed === 0 ? 0 : EXIT_FAILURE;
  },
};

async function runChecks(config: Config, cli: CliEnv): Promise<readonly Finding[]> {
  const [store, providers, signIn, x402, telemetry] = await Promise.all([
    checkStore(config, cli.now()),
    checkProviders(config.providers, config.development),
    checkSignIn(config),
    checkX402(config),
    checkTelemetry(config),
  ]);
  return [
    ...checkSettings(config),
    ...store,
    ...providers,
    ...checkModels(config, cli.now()),
    ...signIn,
    ...checkPayments(config),
    ...x402,
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
    ...(config.development ? checkDevelopmentListenAddress(config) : checkPublicAddress(config)),
    checkSecret(config),
  ];
}

function checkDevelopmentListenAddress({ host }: Config): readonly Finding[] {
  if (isLoopback(host)) return [];
  return [
    {
      status: "warn",
      check: "address",
      message: `it listens on ${host} while in development: whoever reaches it has no limits`,
      hint: "Set POSTERN_BASE_URL to the address that the world uses, or POSTERN_HOST to 127.0.0.1.",
    },
  ];
}

function checkPublicAddress(config: Config): readonly Finding[] {
  const findings: Finding[] = [];
  if (!config.baseUrl.startsWith("https://"))
    findings.push({
      status: "fail",
      check: "address",
      message: `keys would cross the network in the clear: ${config.baseUrl} is not https`,
      hint: "Put a proxy with TLS before the gateway and set POSTERN_BASE_URL to its https:// address.",
    });
  if (config.trustedProxies.length === 0)
    findings.push({
      status: "warn",
      check: "address",
      message:
        "no proxy is trusted: behind one, every client seems to have the proxy's address, and shares its limits",
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
    message: `made on the first start and kept in ${config.store.dataDir}/secret; without that file every key is void`,
  };
}

function checkPayments({ billing, development }: Config): readonly Finding[] {
  if (billing.stripe !== undefined)
    return [{ status: "ok", check: "payments", message: "Stripe takes payments for invoices" }];
  if (development)
    return [
      {
        status: "note",
        check: "payments",
        message: "the processor of development: its page has a button to pay and one to fail",
      },
    ];
  return [
    {
      status: "warn",
      check: "payments",
      message: "no processor is set: an invoice is paid by postern admin mark-paid",
      hint: "Set STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET to take payments by Stripe.",
    },
  ];
}

function formatFinding({ status, check, message, hint }: Finding): string {
  const head = `  ${status.padEnd(4)}  ${check.padEnd(CHECK_WIDTH)} `;
  return `${head}${message}${hint === undefined ? "" : `\n${" ".repeat(head.length)}${hint}`}`;
}

function summaryLine(failed: number): string {
  if (failed === 0) return "Nothing must be mended.";
  return failed === 1 ? "1 thing must be mended." : `${failed} things must be mended.`;
}
