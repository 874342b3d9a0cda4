// `postern doctor`: looks at everything that a gateway needs, changes nothing, and says what is wrong and how to mend it.

import type { Config } from "../config.ts";
import { isLoopback } from "./address.ts";
import { type Command, EXIT_FAILED, type World } from "./command.ts";
import { checkSignIn } from "./doctor-identity.ts";
import { checkModels } from "./doctor-models.ts";
import { checkProviders } from "./doctor-providers.ts";
import { checkStore } from "./doctor-store.ts";
import { checkTelemetry } from "./doctor-telemetry.ts";
import { checkX402 } from "./doctor-x402.ts";

/** `note` says how things are where nothing is wrong with it; only `fail` makes the exit code 1. */
export interface Finding {
  readonly verdict: "ok" | "note" | "warn" | "fail";
  readonly about: string;
  readonly says: string;
  readonly mend?: string;
}

const ABOUT_WIDTH = 11;

export const doctor: Command = {
  summary: "Check settings, store, provider keys and prices, and say how to mend what is wrong",
  details:
    "Changes nothing. Asks each provider whose key is set for its list of models, which costs nothing.\nExit code 1 where something must be mended.",
  positionals: [],
  flags: {},
  run: async (_line, world) => {
    world.print(`Postern ${world.version}\n`);
    const settings = world.readSettings();
    const findings = settings.ok
      ? [...(await examine(settings.config, world))]
      : settings.mistakes.map(mistakeFinding);
    const failed = findings.filter(({ verdict }) => verdict === "fail").length;
    world.print(findings.map(show).join("\n"));
    world.print(
      `\n${conclusion(failed)}${settings.ok ? "" : " The rest is checked once the settings can be read."}`,
    );
    return failed === 0 ? 0 : EXIT_FAILED;
  },
};

async function examine(config: Config, world: World): Promise<readonly Finding[]> {
  const [store, providers, signIn, x402, telemetry] = await Promise.all([
    checkStore(config, world.now()),
    checkProviders(config.providers, config.development),
    checkSignIn(config),
    checkX402(config),
    checkTelemetry(config),
  ]);
  return [
    ...checkSettings(config),
    ...store,
    ...providers,
    ...checkModels(config, world.now()),
    ...signIn,
    ...checkPayments(config),
    ...x402,
    ...telemetry,
  ];
}

function mistakeFinding(mistake: string): Finding {
  return { verdict: "fail", about: "settings", says: mistake };
}

function checkSettings(config: Config): readonly Finding[] {
  const mode = config.development
    ? "development: the base URL is a loopback address, so limits are off"
    : "production";
  return [
    { verdict: "ok", about: "settings", says: mode },
    ...(config.development ? checkDevelopmentAddress(config) : checkPublicAddress(config)),
    checkSecret(config),
  ];
}

function checkDevelopmentAddress({ host }: Config): readonly Finding[] {
  if (isLoopback(host)) return [];
  return [
    {
      verdict: "warn",
      about: "address",
      says: `it listens on ${host} while in development: whoever reaches it has no limits`,
      mend: "Set POSTERN_BASE_URL to the address that the world uses, or POSTERN_HOST to 127.0.0.1.",
    },
  ];
}

function checkPublicAddress(config: Config): readonly Finding[] {
  const findings: Finding[] = [];
  if (!config.baseUrl.startsWith("https://"))
    findings.push({
      verdict: "fail",
      about: "address",
      says: `keys would cross the network in the clear: ${config.baseUrl} is not https`,
      mend: "Put a proxy with TLS before the gateway and set POSTERN_BASE_URL to its https:// address.",
    });
  if (config.trustedProxies.length === 0)
    findings.push({
      verdict: "warn",
      about: "address",
      says: "no proxy is trusted: behind one, every client seems to have the proxy's address, and shares its limits",
      mend: "Set POSTERN_TRUSTED_PROXIES to the proxy's address or network.",
    });
  return findings;
}

function checkSecret(config: Config): Finding {
  if (config.secret !== undefined)
    return { verdict: "ok", about: "secret", says: "POSTERN_SECRET is set" };
  return {
    verdict: "note",
    about: "secret",
    says: `made on the first start and kept in ${config.store.dataDir}/secret; without that file every key is void`,
  };
}

function checkPayments({ billing, development }: Config): readonly Finding[] {
  if (billing.stripe !== undefined)
    return [{ verdict: "ok", about: "payments", says: "Stripe takes payments for invoices" }];
  if (development)
    return [
      {
        verdict: "note",
        about: "payments",
        says: "the processor of development: its page has a button to pay and one to fail",
      },
    ];
  return [
    {
      verdict: "warn",
      about: "payments",
      says: "no processor is set: an invoice is paid by postern admin mark-paid",
      mend: "Set STRIPE_SECRET_KEY and STRIPE_WEBHOOK_SECRET to take payments by Stripe.",
    },
  ];
}

function show({ verdict, about, says, mend }: Finding): string {
  const head = `  ${verdict.padEnd(4)}  ${about.padEnd(ABOUT_WIDTH)} `;
  return `${head}${says}${mend === undefined ? "" : `\n${" ".repeat(head.length)}${mend}`}`;
}

function conclusion(failed: number): string {
  if (failed === 0) return "Nothing must be mended.";
  return failed === 1 ? "1 thing must be mended." : `${failed} things must be mended.`;
}
