// The only reader of the environment. Every setting is read, checked and given its unit here; all mistakes are told at
// once, each naming its variable. The rest of the house is handed plain values.

import { z } from "zod";
import { isLoopbackHost } from "./base/loopback.ts";
import type { Nano } from "./base/money.ts";
import { type Secret, secret } from "./base/secret.ts";
import {
  BILLING_ENVIRONMENT,
  BILLING_SETTINGS,
  type BillingConfig,
  billingOf,
} from "./billing-settings.ts";
import { OPERATOR_ENVIRONMENT, OPERATOR_SETTINGS, operatorMistakes } from "./operator-settings.ts";
import {
  namesProxy,
  type ProviderSetting,
  readProviders,
  type SettableProvider,
} from "./provider-settings.ts";
import { count, httpUrl, isNetwork, isPostgresUrl, listed, usd } from "./setting-kinds.ts";
import {
  TELEMETRY_ENVIRONMENT,
  TELEMETRY_SETTINGS,
  type TelemetryConfig,
  telemetryOf,
} from "./telemetry-settings.ts";
import {
  X402_ENVIRONMENT,
  X402_SETTINGS,
  type X402Config,
  x402Mistakes,
  x402Of,
} from "./x402-settings.ts";

/** The OpenID Connect issuer that signs humans in. */
interface IdentitySetting {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret?: Secret;
  readonly allowedTenants: readonly string[];
}

export interface Config {
  readonly host: string;
  readonly port: number;
  readonly baseUrl: string;
  readonly docsUrl: string;
  /** A loopback base URL: development sign-in, payments and simulator are on, and secrets may be made up. */
  readonly development: boolean;
  readonly store: { readonly databaseUrl?: Secret; readonly dataDir: string };
  readonly secret?: Secret;
  readonly keyPrefix: string;
  readonly vendor: string;
  /** Absent in development, where the bundled provider signs in anybody, and where nobody can sign in. */
  readonly identity?: IdentitySetting;
  readonly identityPort: number;
  readonly processName: string;
  readonly modelsFile?: string;
  readonly trustedProxies: readonly string[];
  readonly limits: {
    readonly accountsPerHour: number;
    readonly grantPerDay: Nano;
    readonly requestsPerMinute: number;
    readonly openCallsPerKey: number;
    readonly claimsPerHour: number;
    readonly claimBonusPerDay: Nano;
  };
  readonly log: {
    readonly level: "debug" | "info" | "warn" | "error";
    readonly form: "auto" | "json" | "text";
  };
  readonly drainSeconds: number;
  readonly billing: BillingConfig;
  /** The addresses of those who may use the operator's pages, in small letters; empty for no such pages. */
  readonly operators: readonly string[];
  /** Absent where agents cannot pay with wallets of their own. */
  readonly x402?: X402Config;
  /** Absent where no collector is told of calls. */
  readonly telemetry?: TelemetryConfig;
  readonly providers: Readonly<Record<string, ProviderSetting>>;
  /** Whether the environment names a proxy through which the providers are reached. */
  readonly leavesByProxy: boolean;
  /** The variable that the operator's models file names for a provider's key. */
  readonly keyNamed: (variable: string) => string | undefined;
}

export type ConfigResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly mistakes: readonly string[] };

/** Every setting with its default and what it is for: the README's table is checked against this. */
export const SETTINGS: Readonly<
  Record<string, { readonly fallback: string; readonly means: string }>
> = {
  POSTERN_PORT: { fallback: "8787", means: "The port to listen on." },
  POSTERN_HOST: { fallback: "127.0.0.1", means: "The address to listen on; `0.0.0.0` for all." },
  POSTERN_BASE_URL: {
    fallback: "http://127.0.0.1:<port>",
    means:
      "The public address of the service: scheme, host and port. Anything but a loopback address turns development aids off.",
  },
  POSTERN_DOCS_URL: {
    fallback: "<base URL>/docs",
    means: "Where the documentation for humans is.",
  },
  POSTERN_DATA_DIR: { fallback: "./data", means: "The folder of the SQLite file." },
  DATABASE_URL: { fallback: "", means: "A `postgres://` address: PostgreSQL instead of SQLite." },
  POSTERN_SECRET: {
    fallback: "made and kept in the data folder in development",
    means: "The master secret, 32 characters or more. Lose it and every key is void.",
  },
  POSTERN_KEY_PREFIX: { fallback: "pst", means: "What raw keys begin with." },
  POSTERN_VENDOR: { fallback: "postern", means: "The `<vendor>` of the claim's grant type." },
  OIDC_ISSUER: {
    fallback: "the bundled provider in development",
    means:
      "Who signs humans in: the exact `issuer` of an OpenID Connect provider, see `docs/identity.md`.",
  },
  OIDC_CLIENT_ID: { fallback: "", means: "Postern's client id at that provider." },
  OIDC_CLIENT_SECRET: { fallback: "", means: "Its secret; without one it is a public client." },
  OIDC_ALLOWED_TENANTS: {
    fallback: "",
    means: "Organizations whose people may sign in, with commas; not set for all.",
  },
  POSTERN_IDENTITY_PORT: {
    fallback: "<port> + 1",
    means: "The port of the bundled identity provider, in development only.",
  },
  POSTERN_CLAIMS_PER_HOUR: {
    fallback: "20; 0 in development",
    means: "Claims that one account may start in an hour; 0 is no limit.",
  },
  POSTERN_CLAIM_BONUS_USD_PER_DAY: {
    fallback: "25; 0 in development",
    means: "Bonuses for claims that are given away in a UTC day; 0 is no limit.",
  },
  POSTERN_PROCESS_NAME: {
    fallback: "<host name>:<port>",
    means:
      "A name that no other process on the same PostgreSQL has, and that stays the same over restarts.",
  },
  POSTERN_MODELS_FILE: {
    fallback: "",
    means: "The operator's own models and prices, see `docs/models.md`.",
  },
  POSTERN_TRUSTED_PROXIES: {
    fallback: "",
    means: "Addresses or networks, with commas, whose `x-forwarded-for` is believed.",
  },
  POSTERN_ACCOUNTS_PER_HOUR: {
    fallback: "20; 0 in development",
    means: "Accounts that one network may create in an hour; 0 is no limit.",
  },
  POSTERN_GRANT_USD_PER_DAY: {
    fallback: "5; 0 in development",
    means: "Starting credit that is given away in a UTC day; 0 is no limit.",
  },
  POSTERN_REQUESTS_PER_MINUTE: {
    fallback: "600; 0 in development",
    means: "Requests a key may make in a minute; 0 is no limit.",
  },
  POSTERN_OPEN_CALLS_PER_KEY: {
    fallback: "100; 0 in development",
    means: "Model calls that a key may have open at once; 0 is no limit.",
  },
  POSTERN_LOG_LEVEL: { fallback: "info", means: "`debug`, `info`, `warn` or `error`." },
  POSTERN_LOG_FORM: { fallback: "auto", means: "`json`, `text`, or `auto`: text on a terminal." },
  POSTERN_DRAIN_SECONDS: {
    fallback: "30",
    means: "How long open work may take to finish after SIGTERM.",
  },
  ...OPERATOR_SETTINGS,
  ...BILLING_SETTINGS,
  ...X402_SETTINGS,
  ...TELEMETRY_SETTINGS,
};

const KEY_SECRET_MIN = 32;

const Environment = z.object({
  POSTERN_PORT: count(0, 65_535).default(8_787),
  POSTERN_HOST: z.string().default("127.0.0.1"),
  POSTERN_BASE_URL: httpUrl
    .refine(
      (url) => /^https?:\/\/[^/?#@]+$/i.test(url),
      "must be scheme, host and port alone: Postern is served from the root of its host",
    )
    .optional(),
  POSTERN_DOCS_URL: httpUrl.optional(),
  POSTERN_DATA_DIR: z.string().default("./data"),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, { error: "must begin with postgres://", abort: true })
    .refine(
      isPostgresUrl,
      "must be an address such as postgres://user:password@host:5432/database; in its user and password, characters such as # / ? @ are written as %23 %2F %3F %40",
    )
    .optional(),
  POSTERN_SECRET: z
    .string()
    .min(
      KEY_SECRET_MIN,
      `must have ${KEY_SECRET_MIN} characters or more; make one with: openssl rand -base64 33`,
    )
    .optional(),
  POSTERN_KEY_PREFIX: z
    .string()
    .regex(/^[a-z][a-z0-9]{1,9}$/, "must be 2 to 10 small letters and digits")
    .default("pst"),
  POSTERN_VENDOR: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, "must be small letters, digits and hyphens")
    .default("postern"),
  OIDC_ISSUER: z
    .url({ protocol: /^https?$/, error: "must be an http:// or https:// address" })
    .optional(),
  OIDC_CLIENT_ID: z.string().optional(),
  OIDC_CLIENT_SECRET: z.string().optional(),
  OIDC_ALLOWED_TENANTS: z.string().default("").transform(listed),
  POSTERN_IDENTITY_PORT: count(0, 65_535).optional(),
  POSTERN_CLAIMS_PER_HOUR: count(0, 1_000_000).optional(),
  POSTERN_CLAIM_BONUS_USD_PER_DAY: usd,
  POSTERN_PROCESS_NAME: z.string().min(1).max(200).optional(),
  POSTERN_MODELS_FILE: z.string().optional(),
  POSTERN_TRUSTED_PROXIES: z
    .string()
    .default("")
    .transform(listed)
    .refine(
      (entries) => entries.every(isNetwork),
      "must be addresses or networks such as 10.0.0.0/8, with commas between",
    ),
  POSTERN_ACCOUNTS_PER_HOUR: count(0, 1_000_000).optional(),
  POSTERN_GRANT_USD_PER_DAY: usd,
  POSTERN_REQUESTS_PER_MINUTE: count(0, 10_000_000).optional(),
  POSTERN_OPEN_CALLS_PER_KEY: count(0, 1_000_000).optional(),
  POSTERN_LOG_LEVEL: z
    .enum(["debug", "info", "warn", "error"], { error: "must be debug, info, warn or error" })
    .default("info"),
  POSTERN_LOG_FORM: z
    .enum(["auto", "json", "text"], { error: "must be auto, json or text" })
    .default("auto"),
  POSTERN_DRAIN_SECONDS: count(0, 3_600).default(30),
  ...OPERATOR_ENVIRONMENT,
  ...BILLING_ENVIRONMENT,
  ...X402_ENVIRONMENT,
  ...TELEMETRY_ENVIRONMENT,
});

export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostName: string;
  /** The providers that an environment variable can switch on, by the stem of its name. */
  readonly providers: readonly SettableProvider[];
}

export function readConfig({ env, hostName, providers }: Surroundings): ConfigResult {
  // An empty variable is an unset one: that is how files and dashboards write it.
  const given = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ""),
  );
  const parsed = Environment.safeParse(given);
  const mistakes = parsed.success
    ? []
    : parsed.error.issues.map((issue) => `${issue.path.join(".")} ${issue.message}`);
  mistakes.push(...unknownNames(given));
  const providerSettings = readProviders(given, providers, mistakes);
  if (!parsed.success) return { ok: false, mistakes };
  const config = {
    ...assemble(parsed.data, hostName, providerSettings),
    keyNamed: (variable: string) => given[variable],
    leavesByProxy: namesProxy(given),
  };
  if (!config.development && config.secret === undefined) {
    mistakes.push(
      `POSTERN_SECRET must be set when POSTERN_BASE_URL is not a loopback address; make one with: openssl rand -base64 33`,
    );
  }
  if ((config.identity === undefined) !== (parsed.data.OIDC_ISSUER === undefined))
    mistakes.push("OIDC_CLIENT_ID must be set where OIDC_ISSUER is");
  mistakes.push(...operatorMistakes(config.operators, config));
  mistakes.push(...x402Mistakes(parsed.data));
  return mistakes.length === 0 ? { ok: true, config } : { ok: false, mistakes };
}

function assemble(
  env: z.infer<typeof Environment>,
  hostName: string,
  providers: Readonly<Record<string, ProviderSetting>>,
): Omit<Config, "keyNamed" | "leavesByProxy"> {
  const baseUrl = env.POSTERN_BASE_URL ?? `http://127.0.0.1:${env.POSTERN_PORT}`;
  const development = isLoopbackHost(new URL(baseUrl).hostname);
  const unlessDevelopment = <T>(set: T | undefined, fallback: T, none: T): T =>
    set ?? (development ? none : fallback);
  return {
    host: env.POSTERN_HOST,
    port: env.POSTERN_PORT,
    baseUrl,
    docsUrl: env.POSTERN_DOCS_URL ?? `${baseUrl}/docs`,
    development,
    store: {
      dataDir: env.POSTERN_DATA_DIR,
      ...(env.DATABASE_URL === undefined ? {} : { databaseUrl: secret(env.DATABASE_URL) }),
    },
    ...(env.POSTERN_SECRET === undefined ? {} : { secret: secret(env.POSTERN_SECRET) }),
    keyPrefix: env.POSTERN_KEY_PREFIX,
    vendor: env.POSTERN_VENDOR,
    ...identityOf(env),
    identityPort: env.POSTERN_IDENTITY_PORT ?? (env.POSTERN_PORT === 0 ? 0 : env.POSTERN_PORT + 1),
    processName: env.POSTERN_PROCESS_NAME ?? `${hostName}:${env.POSTERN_PORT}`,
    ...(env.POSTERN_MODELS_FILE === undefined ? {} : { modelsFile: env.POSTERN_MODELS_FILE }),
    trustedProxies: env.POSTERN_TRUSTED_PROXIES,
    limits: {
      accountsPerHour: unlessDevelopment(env.POSTERN_ACCOUNTS_PER_HOUR, 20, 0),
      grantPerDay: unlessDevelopment(env.POSTERN_GRANT_USD_PER_DAY, 5_000_000_000n, 0n),
      requestsPerMinute: unlessDevelopment(env.POSTERN_REQUESTS_PER_MINUTE, 600, 0),
      openCallsPerKey: unlessDevelopment(env.POSTERN_OPEN_CALLS_PER_KEY, 100, 0),
      claimsPerHour: unlessDevelopment(env.POSTERN_CLAIMS_PER_HOUR, 20, 0),
      claimBonusPerDay: unlessDevelopment(env.POSTERN_CLAIM_BONUS_USD_PER_DAY, 25_000_000_000n, 0n),
    },
    log: { level: env.POSTERN_LOG_LEVEL, form: env.POSTERN_LOG_FORM },
    drainSeconds: env.POSTERN_DRAIN_SECONDS,
    billing: billingOf(env),
    operators: env.POSTERN_OPERATORS,
    ...x402Of(env),
    ...telemetryOf(env),
    providers,
  };
}

function identityOf(env: z.infer<typeof Environment>): Pick<Config, "identity"> {
  const { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET } = env;
  if (issuer === undefined || clientId === undefined) return {};
  return {
    identity: {
      issuer,
      clientId,
      ...(OIDC_CLIENT_SECRET === undefined ? {} : { clientSecret: secret(OIDC_CLIENT_SECRET) }),
      allowedTenants: env.OIDC_ALLOWED_TENANTS,
    },
  };
}

// A misspelt setting would be a default in silence.
function unknownNames(given: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.keys(given)
    .filter(
      (name) =>
        name.startsWith("POSTERN_") &&
        !Object.hasOwn(SETTINGS, name) &&
        !name.startsWith("POSTERN_TEST_"),
    )
    .map((name) => `${name} is not a setting; the README lists them`);
}
