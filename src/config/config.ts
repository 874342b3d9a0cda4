// The only reader of the environment. Every setting is read, checked and given its unit here; all mistakes are told at
// once, each naming its variable. The rest of the house is handed plain values.

import { z } from "zod";
import { isLoopbackHost } from "../base/loopback.ts";
import type { Nano } from "../base/money.ts";
import { type Secret, secret } from "../base/secret.ts";
import {
  BILLING_ENVIRONMENT,
  BILLING_SETTINGS,
  type BillingConfig,
  billingConfigFrom,
} from "./billing.ts";
import type { ProviderSetting } from "../inference/providers/provider-setting.ts";
import { OPERATOR_ENVIRONMENT, OPERATOR_SETTINGS, operatorConfigErrors } from "./operator.ts";
import { hasProxyVariable, readProviderSettings, type ProviderSettingsSpec } from "./providers.ts";
import {
  integer,
  httpUrl,
  isIpOrCidr,
  isPostgresUrl,
  commaSeparated,
  usdAmount,
} from "./schema.ts";
import {
  TELEMETRY_ENVIRONMENT,
  TELEMETRY_SETTINGS,
  type TelemetryConfig,
  parseTelemetryConfig,
} from "./telemetry.ts";
import {
  X402_ENVIRONMENT,
  X402_SETTINGS,
  type X402Config,
  x402ConfigErrors,
  x402ConfigFrom,
} from "./x402.ts";

/** The OpenID Connect issuer that signs humans in. */
interface OidcConfig {
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
  readonly identity?: OidcConfig;
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
  readonly hasOutboundProxy: boolean;
  /** The variable that the operator's models file names for a provider's key. */
  readonly readKeyVariable: (variable: string) => string | undefined;
}

export type ConfigResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly errors: readonly string[] };

/** Every setting with its default and what it is for: the README's table is checked against this. */
export const SETTINGS: Readonly<
  Record<string, { readonly defaultValue: string; readonly description: string }>
> = {
  POSTERN_PORT: { defaultValue: "8787", description: "The port to listen on." },
  POSTERN_HOST: {
    defaultValue: "127.0.0.1",
    description: "The address to listen on; `0.0.0.0` for all.",
  },
  POSTERN_BASE_URL: {
    defaultValue: "http://127.0.0.1:<port>",
    description:
      "The public address of the service: scheme, host and port. Anything but a loopback address turns development aids off.",
  },
  POSTERN_DOCS_URL: {
    defaultValue: "<base URL>/docs",
    description: "Where the documentation for humans is.",
  },
  POSTERN_DATA_DIR: { defaultValue: "./data", description: "The folder of the SQLite file." },
  DATABASE_URL: {
    defaultValue: "",
    description: "A `postgres://` address: PostgreSQL instead of SQLite.",
  },
  POSTERN_SECRET: {
    defaultValue: "made and kept in the data folder in development",
    description: "The master secret, 32 characters or more. Lose it and every key is void.",
  },
  POSTERN_KEY_PREFIX: { defaultValue: "pst", description: "What raw keys begin with." },
  POSTERN_VENDOR: {
    defaultValue: "postern",
    description: "The `<vendor>` of the claim's grant type.",
  },
  OIDC_ISSUER: {
    defaultValue: "the bundled provider in development",
    description:
      "Who signs humans in: the exact `issuer` of an OpenID Connect provider, see `docs/identity.md`.",
  },
  OIDC_CLIENT_ID: { defaultValue: "", description: "Postern's client id at that provider." },
  OIDC_CLIENT_SECRET: {
    defaultValue: "",
    description: "Its secret; without one it is a public client.",
  },
  OIDC_ALLOWED_TENANTS: {
    defaultValue: "",
    description: "Organizations whose people may sign in, with commas; not set for all.",
  },
  POSTERN_IDENTITY_PORT: {
    defaultValue: "<port> + 1",
    description: "The port of the bundled identity provider, in development only.",
  },
  POSTERN_CLAIMS_PER_HOUR: {
    defaultValue: "20; 0 in development",
    description: "Claims that one account may start in an hour; 0 is no limit.",
  },
  POSTERN_CLAIM_BONUS_USD_PER_DAY: {
    defaultValue: "25; 0 in development",
    description: "Bonuses for claims that are given away in a UTC day; 0 is no limit.",
  },
  POSTERN_PROCESS_NAME: {
    defaultValue: "<host name>:<port>",
    description:
      "A name that no other process on the same PostgreSQL has, and that stays the same over restarts.",
  },
  POSTERN_MODELS_FILE: {
    defaultValue: "",
    description: "The operator's own models and prices, see `docs/models.md`.",
  },
  POSTERN_TRUSTED_PROXIES: {
    defaultValue: "",
    description: "Addresses or networks, with commas, whose `x-forwarded-for` is believed.",
  },
  POSTERN_ACCOUNTS_PER_HOUR: {
    defaultValue: "20; 0 in development",
    description: "Accounts that one network may create in an hour; 0 is no limit.",
  },
  POSTERN_GRANT_USD_PER_DAY: {
    defaultValue: "5; 0 in development",
    description: "Starting credit that is given away in a UTC day; 0 is no limit.",
  },
  POSTERN_REQUESTS_PER_MINUTE: {
    defaultValue: "600; 0 in development",
    description: "Requests a key may make in a minute; 0 is no limit.",
  },
  POSTERN_OPEN_CALLS_PER_KEY: {
    defaultValue: "100; 0 in development",
    description: "Model calls that a key may have open at once; 0 is no limit.",
  },
  POSTERN_LOG_LEVEL: { defaultValue: "info", description: "`debug`, `info`, `warn` or `error`." },
  POSTERN_LOG_FORM: {
    defaultValue: "auto",
    description: "`json`, `text`, or `auto`: text on a terminal.",
  },
  POSTERN_DRAIN_SECONDS: {
    defaultValue: "30",
    description: "How long open work may take to finish after SIGTERM.",
  },
  ...OPERATOR_SETTINGS,
  ...BILLING_SETTINGS,
  ...X402_SETTINGS,
  ...TELEMETRY_SETTINGS,
};

const MASTER_SECRET_MIN_CHARACTERS = 32;

const EnvironmentSchema = z.object({
  POSTERN_PORT: integer(0, 65_535).default(8_787),
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
      MASTER_SECRET_MIN_CHARACTERS,
      `must have ${MASTER_SECRET_MIN_CHARACTERS} characters or more; make one with: openssl rand -base64 33`,
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
  OIDC_ALLOWED_TENANTS: z.string().default("").transform(commaSeparated),
  POSTERN_IDENTITY_PORT: integer(0, 65_535).optional(),
  POSTERN_CLAIMS_PER_HOUR: integer(0, 1_000_000).optional(),
  POSTERN_CLAIM_BONUS_USD_PER_DAY: usdAmount,
  POSTERN_PROCESS_NAME: z.string().min(1).max(200).optional(),
  POSTERN_MODELS_FILE: z.string().optional(),
  POSTERN_TRUSTED_PROXIES: z
    .string()
    .default("")
    .transform(commaSeparated)
    .refine(
      (entries) => entries.every(isIpOrCidr),
      "must be addresses or networks such as 10.0.0.0/8, with commas between",
    ),
  POSTERN_ACCOUNTS_PER_HOUR: integer(0, 1_000_000).optional(),
  POSTERN_GRANT_USD_PER_DAY: usdAmount,
  POSTERN_REQUESTS_PER_MINUTE: integer(0, 10_000_000).optional(),
  POSTERN_OPEN_CALLS_PER_KEY: integer(0, 1_000_000).optional(),
  POSTERN_LOG_LEVEL: z
    .enum(["debug", "info", "warn", "error"], { error: "must be debug, info, warn or error" })
    .default("info"),
  POSTERN_LOG_FORM: z
    .enum(["auto", "json", "text"], { error: "must be auto, json or text" })
    .default("auto"),
  POSTERN_DRAIN_SECONDS: integer(0, 3_600).default(30),
  ...OPERATOR_ENVIRONMENT,
  ...BILLING_ENVIRONMENT,
  ...X402_ENVIRONMENT,
  ...TELEMETRY_ENVIRONMENT,
});

export interface ConfigSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostName: string;
  /** The providers that an environment variable can switch on, by the stem of its name. */
  readonly providers: readonly ProviderSettingsSpec[];
}

export function readConfig({ env, hostName, providers }: ConfigSources): ConfigResult {
  // An empty variable is an unset one: that is how files and dashboards write it.
  const variables = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ""),
  );
  const parsed = EnvironmentSchema.safeParse(variables);
  const errors = parsed.success
    ? []
    : parsed.error.issues.map((issue) => `${issue.path.join(".")} ${issue.message}`);
  errors.push(...unknownVariableErrors(variables));
  const providerSettings = readProviderSettings(variables, providers, errors);
  if (!parsed.success) return { ok: false, errors };
  const config = {
    ...buildConfig(parsed.data, hostName, providerSettings),
    readKeyVariable: (variable: string) => variables[variable],
    hasOutboundProxy: hasProxyVariable(variables),
  };
  if (!config.development && config.secret === undefined) {
    errors.push(
      `POSTERN_SECRET must be set when POSTERN_BASE_URL is not a loopback address; make one with: openssl rand -base64 33`,
    );
  }
  if ((config.identity === undefined) !== (parsed.data.OIDC_ISSUER === undefined))
    errors.push("OIDC_CLIENT_ID must be set where OIDC_ISSUER is");
  errors.push(...operatorConfigErrors(config.operators, config));
  errors.push(...x402ConfigErrors(parsed.data));
  return errors.length === 0 ? { ok: true, config } : { ok: false, errors };
}

function buildConfig(
  env: z.infer<typeof EnvironmentSchema>,
  hostName: string,
  providers: Readonly<Record<string, ProviderSetting>>,
): Omit<Config, "readKeyVariable" | "hasOutboundProxy"> {
  const baseUrl = env.POSTERN_BASE_URL ?? `http://127.0.0.1:${env.POSTERN_PORT}`;
  const development = isLoopbackHost(new URL(baseUrl).hostname);
  const outsideDevelopment = <T>(configured: T | undefined, fallback: T, inDevelopment: T): T =>
    configured ?? (development ? inDevelopment : fallback);
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
    ...oidcConfig(env),
    identityPort: env.POSTERN_IDENTITY_PORT ?? (env.POSTERN_PORT === 0 ? 0 : env.POSTERN_PORT + 1),
    processName: env.POSTERN_PROCESS_NAME ?? `${hostName}:${env.POSTERN_PORT}`,
    ...(env.POSTERN_MODELS_FILE === undefined ? {} : { modelsFile: env.POSTERN_MODELS_FILE }),
    trustedProxies: env.POSTERN_TRUSTED_PROXIES,
    limits: {
      accountsPerHour: outsideDevelopment(env.POSTERN_ACCOUNTS_PER_HOUR, 20, 0),
      grantPerDay: outsideDevelopment(env.POSTERN_GRANT_USD_PER_DAY, 5_000_000_000n, 0n),
      requestsPerMinute: outsideDevelopment(env.POSTERN_REQUESTS_PER_MINUTE, 600, 0),
      openCallsPerKey: outsideDevelopment(env.POSTERN_OPEN_CALLS_PER_KEY, 100, 0),
      claimsPerHour: outsideDevelopment(env.POSTERN_CLAIMS_PER_HOUR, 20, 0),
      claimBonusPerDay: outsideDevelopment(
        env.POSTERN_CLAIM_BONUS_USD_PER_DAY,
        25_000_000_000n,
        0n,
      ),
    },
    log: { level: env.POSTERN_LOG_LEVEL, form: env.POSTERN_LOG_FORM },
    drainSeconds: env.POSTERN_DRAIN_SECONDS,
    billing: billingConfigFrom(env),
    operators: env.POSTERN_OPERATORS,
    ...x402ConfigFrom(env),
    ...parseTelemetryConfig(env),
    providers,
  };
}

function oidcConfig(env: z.infer<typeof EnvironmentSchema>): Pick<Config, "identity"> {
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
function unknownVariableErrors(variables: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.keys(variables)
    .filter(
      (name) =>
        name.startsWith("POSTERN_") &&
        !Object.hasOwn(SETTINGS, name) &&
        !name.startsWith("POSTERN_TEST_"),
    )
    .map((name) => `${name} is not a setting; the README lists them`);
}
