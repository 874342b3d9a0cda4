// The only reader of the environment. Validates every setting and reports all errors at once, each with its variable.

import { z } from "zod";
import { type Secret, secret } from "../base/crypto/secret.ts";
import type { OwnDataPolicy } from "../base/data-rules.ts";
import type { Nano } from "../base/money/money.ts";
import { isLoopbackHost } from "../base/network/public-address.ts";
import type { ResponseStorage } from "../base/response-storage.ts";
import { emailError } from "../base/text/email.ts";
import type { ProviderSetting } from "../inference/providers/provider-setting.ts";
import type { Durability } from "../store/db.ts";
import { parsePostgresUrl } from "../store/postgres-url.ts";
import {
  AGENT_PAYMENT_SETTINGS,
  type AgentPaymentConfig,
  agentPaymentConfigErrors,
  agentPaymentConfigFrom,
} from "./agent-payment-settings.ts";
import {
  BILLING_SETTINGS,
  type BillingConfig,
  billingConfigErrors,
  billingConfigFrom,
} from "./billing-settings.ts";
import { DATA_POLICY_SETTINGS, dataPolicyConfigFrom } from "./data-policy-settings.ts";
import * as email from "./email-settings.ts";
import { GRANT_SETTINGS } from "./limit-settings.ts";
import { LIMIT_SETTINGS } from "./limit-settings.ts";
import { SECRET_SETTINGS } from "./master-secret.ts";
import { MODEL_SETTINGS, type ModelConfig, modelConfigFrom } from "./model-settings.ts";
import * as operator from "./operator-settings.ts";
import * as processes from "./process-settings.ts";
import { SHUTDOWN_SETTINGS } from "./process-settings.ts";
import {
  hasProxyVariable,
  readProviderSettings,
  type ProviderSettingsSpec,
} from "./provider-settings.ts";
import {
  RETENTION_SETTINGS,
  retentionConfigFrom,
  type UsageRetention,
} from "./retention-settings.ts";
import { RESPONSE_STORAGE_SETTINGS } from "./retention-settings.ts";
import {
  commaSeparated,
  docsOf,
  httpUrl,
  integer,
  isIpOrCidr,
  schemasOf,
  settings,
  usdAmount,
} from "./setting-schemas.ts";
import { IDENTITY_SETTINGS, type OidcConfig, oidcConfigFrom } from "./sign-in-settings.ts";
import {
  TELEMETRY_SETTINGS,
  type TelemetryConfig,
  parseTelemetryConfig,
} from "./telemetry-settings.ts";
import { TIMEOUT_SETTINGS, type TimeoutConfig, timeoutConfigFrom } from "./timeout-settings.ts";
import { unknownVariableErrors, withoutServiceLink } from "./unknown-variables.ts";
import { type VerifiedAgentConfig, verifiedAgentErrors } from "./verified-agent-settings.ts";
import {
  WEB_SEARCH_SETTINGS,
  type WebSearchConfig,
  webSearchConfigErrors,
  webSearchConfigFrom,
} from "./web-search-settings.ts";

export interface Config extends processes.ProcessConfig, ModelConfig, AgentPaymentConfig {
  readonly host: string;
  readonly port: number;
  readonly baseUrl: string;
  readonly docsUrl: string;
  /** A loopback base URL: development sign-in, payments and simulator are on, and the secret is generated. */
  readonly development: boolean;
  readonly store: {
    readonly databaseUrl?: Secret;
    /** Absent for the default. */
    readonly poolSize?: number;
    readonly commit: Durability;
    readonly dataDir: string;
  };
  readonly secret?: Secret;
  readonly previousSecret?: Secret;
  readonly keyPrefix: string;
  readonly vendor: string;
  /** Absent in development, which has a bundled provider, and where sign-in is off. */
  readonly identity?: OidcConfig;
  /** Whether MCP clients may name a metadata document, which the gateway fetches. */
  readonly hasClientDocuments: boolean;
  readonly identityPort: number;
  readonly trustedProxies: readonly string[];
  readonly limits: {
    readonly accountsPerHour: number;
    readonly grantPerDay: Nano;
    readonly whenGrantsExhausted: "create" | "refuse";
    readonly proofOfWorkBits: number;
    readonly requestsPerMinute: number;
    readonly openCallsPerKey: number;
    /** For an account; 0 to fetch none. */
    readonly fetchedFilesPerMinute: number;
    /** Undefined for a share of the descriptors; 0 for no limit. */
    readonly connectionsPerNetwork: number | undefined;
    readonly claimsPerHour: number;
    readonly claimBonusPerDay: Nano;
  };
  /** How long a call waits for its provider. */
  readonly timeouts: TimeoutConfig;
  /** Which responses of the Responses API are stored; accounts can choose a stricter setting. */
  readonly dataPolicy: OwnDataPolicy;
  readonly responseStorage: ResponseStorage;
  /** The most days that logged prompts are kept; accounts can choose fewer. */
  readonly promptRetentionDays: number;
  /** Absent where the gateway does not search the web. */
  readonly webSearch?: WebSearchConfig;
  readonly log: {
    readonly level: "debug" | "info" | "warn" | "error";
    readonly form: "auto" | "json" | "text";
  };
  readonly shutdownDelaySeconds: number;
  readonly drainSeconds: number;
  /** Absent where no SMTP server is set. */
  readonly email?: email.EmailConfig;
  readonly billing: BillingConfig;
  /** Folded email addresses of the operators; empty turns the operator pages off. */
  readonly operators: readonly string[];
  /** Whether a second operator must approve changes of accounts. */
  readonly operatorApproval: "off" | "two_person";
  readonly verifiedAgents: readonly VerifiedAgentConfig[];
  readonly alerts: operator.AlertConfig;
  readonly verifyLedgerHours: number;
  readonly hasLedgerProofs: boolean;
  /** An email address or URL for reports of vulnerabilities, published in security.txt. */
  readonly securityContact?: string;
  /** The bearer token of /metrics. Without one /metrics is served in development only. */
  readonly metricsToken?: Secret;
  readonly usageRetention?: UsageRetention;
  /** Absent where telemetry is off. */
  readonly telemetry?: TelemetryConfig;
  readonly providers: Readonly<Record<string, ProviderSetting>>;
  /** Whether the environment names an outbound proxy. */
  readonly hasOutboundProxy: boolean;
  /** Reads the variable that the models file names for a provider key. */
  readonly readKeyVariable: (variable: string) => string | undefined;
}

export type ConfigResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly errors: readonly string[] };

/** Each setting: its schema, its default and its description. */
const SETTING_TABLE = settings({
  POSTERN_PORT: [integer(0, 65_535).default(8_787), "8787", "The port to listen on."],
  POSTERN_HOST: [
    z.string().default("127.0.0.1"),
    "127.0.0.1",
    "The address to listen on; `0.0.0.0` for all interfaces. In development mode only a loopback address.",
  ],
  POSTERN_BASE_URL: [
    httpUrl
      .refine(
        (url) => /^https?:\/\/[^/?#@]+$/i.test(url),
        "must be scheme, host and port only: Postern is served from the root of its host",
      )
      .optional(),
    "http://127.0.0.1:<port>",
    "The public URL of the gateway: scheme, host and port. Anything but a loopback address turns development mode off.",
  ],
  POSTERN_DOCS_URL: [
    httpUrl.optional(),
    "<base URL>/docs",
    "The URL of the documentation for people.",
  ],
  POSTERN_DATA_DIR: [z.string().default("./data"), "./data", "The folder of the SQLite file."],
  DATABASE_URL: [
    z
      .string()
      .superRefine((url, context) => {
        try {
          parsePostgresUrl(url);
        } catch (error) {
          context.addIssue(error instanceof Error ? error.message : String(error));
        }
      })
      .optional(),
    "",
    "A `postgres://` URL, with one host or several (`host1:5432,host2:5432`). Uses PostgreSQL instead of SQLite. Add `?pgbouncer=true` behind PgBouncer in transaction mode.",
  ],
  POSTERN_COMMIT: [
    z.enum(["disk", "os_cache"], { error: "must be disk or os_cache" }).default("disk"),
    "disk",
    "`disk`: charges are synced before a reply ends. `os_cache`: they are not, so that the last ones can be lost with the machine, at your cost.",
  ],
  ...SECRET_SETTINGS,
  POSTERN_KEY_PREFIX: [
    z
      .string()
      .regex(/^[a-z][a-z0-9]{1,9}$/, "must be 2 to 10 lowercase letters and digits")
      .default("pst"),
    "pst",
    "The prefix of API keys.",
  ],
  POSTERN_VENDOR: [
    z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, "must be lowercase letters, digits and hyphens")
      .default("postern"),
    "postern",
    "The `<vendor>` in the claim grant type.",
  ],
  ...IDENTITY_SETTINGS,
  POSTERN_CLAIMS_PER_HOUR: [
    integer(0, 1_000_000).optional(),
    "20; 0 in development",
    "Claims that one account may start per hour; 0 for no limit.",
  ],
  POSTERN_CLAIM_BONUS_USD_PER_DAY: [
    usdAmount,
    "25; 0 in development",
    "Claim bonuses granted per UTC day, in US dollars; 0 for no limit.",
  ],
  ...processes.PROCESS_SETTINGS,
  ...MODEL_SETTINGS,
  ...WEB_SEARCH_SETTINGS,
  POSTERN_TRUSTED_PROXIES: [
    z
      .string()
      .default("")
      .transform(commaSeparated)
      .refine(
        (entries) => entries.every(isIpOrCidr),
        "must be IP addresses or networks such as 10.0.0.0/8, separated by commas",
      ),
    "",
    "Addresses or networks of your proxies, separated by commas; their `x-forwarded-for` is trusted.",
  ],
  POSTERN_ACCOUNTS_PER_HOUR: [
    integer(0, 1_000_000).optional(),
    "20; 0 in development",
    "Accounts that one network may create per hour; 0 for no limit.",
  ],
  ...GRANT_SETTINGS,
  ...LIMIT_SETTINGS,
  ...TIMEOUT_SETTINGS,
  ...RESPONSE_STORAGE_SETTINGS,
  ...DATA_POLICY_SETTINGS,
  POSTERN_LOG_LEVEL: [
    z
      .enum(["debug", "info", "warn", "error"], { error: "must be debug, info, warn or error" })
      .default("info"),
    "info",
    "`debug`, `info`, `warn` or `error`.",
  ],
  POSTERN_LOG_FORM: [
    z.enum(["auto", "json", "text"], { error: "must be auto, json or text" }).default("auto"),
    "auto",
    "`json`, `text`, or `auto` (text on a terminal, else JSON).",
  ],
  POSTERN_SECURITY_CONTACT: [
    z
      .string()
      .refine(
        (contact) => /^https:\/\/\S+$/.test(contact) || emailError(contact) === undefined,
        "must be an email address or an https:// URL",
      )
      .optional(),
    "",
    "An email address or https URL for reports of vulnerabilities; published at `/.well-known/security.txt`.",
  ],
  POSTERN_METRICS_TOKEN: [
    z
      .string()
      .regex(/^[\x21-\x7e]{16,}$/, "must have at least 16 characters, without spaces")
      .optional(),
    "",
    "The bearer token that Prometheus sends to `/metrics`, at least 16 characters. Without it `/metrics` is off outside development.",
  ],
  ...SHUTDOWN_SETTINGS,
  ...RETENTION_SETTINGS,
  ...operator.OPERATOR_SETTINGS,
  ...email.EMAIL_SETTINGS,
  ...BILLING_SETTINGS,
  ...AGENT_PAYMENT_SETTINGS,
  ...TELEMETRY_SETTINGS,
});

/** docs/site/settings.md is generated from this. */
export const SETTINGS = docsOf(SETTING_TABLE);

const EnvironmentSchema = z.object(schemasOf(SETTING_TABLE));

export interface ConfigSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly hostName: string;
  /** `file:line` of a variable that comes from a file. */
  readonly originOf?: ((name: string) => string | undefined) | undefined;
  /** The providers that environment variables can enable. */
  readonly providers: readonly ProviderSettingsSpec[];
}

export function readConfig(sources: ConfigSources): ConfigResult {
  const result = readVariables(sources);
  const { originOf } = sources;
  if (result.ok || originOf === undefined) return result;
  return { ok: false, errors: result.errors.map((error) => withOrigin(error, originOf)) };
}

function withOrigin(error: string, originOf: NonNullable<ConfigSources["originOf"]>): string {
  const origin = originOf(/^\w+/.exec(error)?.[0] ?? "");
  return origin === undefined ? error : `${origin}: ${error}`;
}

function readVariables({ env, hostName, providers }: ConfigSources): ConfigResult {
  // .env files and dashboards write an unset variable as an empty one.
  const variables = Object.fromEntries(
    Object.entries(withoutServiceLink(env)).filter(
      ([, value]) => value !== undefined && value !== "",
    ),
  );
  const parsed = EnvironmentSchema.safeParse(variables);
  const errors = parsed.success
    ? []
    : parsed.error.issues.map((issue) => `${issue.path.join(".")} ${issue.message}`);
  errors.push(...unknownVariableErrors(variables, Object.keys(SETTINGS)));
  const providerSettings = readProviderSettings(variables, providers, errors);
  if (!parsed.success) return { ok: false, errors };
  const config = {
    ...buildConfig(parsed.data, hostName, providerSettings),
    readKeyVariable: (variable: string) => variables[variable],
    hasOutboundProxy: hasProxyVariable(variables),
  };
  if (!config.development && config.secret === undefined) {
    errors.push(
      `POSTERN_SECRET must be set if POSTERN_BASE_URL is not a loopback address; generate one with: openssl rand -base64 33`,
    );
  }
  if (config.previousSecret !== undefined && config.secret === undefined)
    errors.push("POSTERN_SECRET_PREVIOUS needs POSTERN_SECRET, the new secret");
  if (config.development && !isLoopbackHost(config.host))
    errors.push(
      `POSTERN_HOST must be 127.0.0.1 in development mode, where anybody can sign in as anybody and limits are off; set POSTERN_BASE_URL to the public https:// URL to listen on ${config.host}`,
    );
  if ((config.identity === undefined) !== (parsed.data.OIDC_ISSUER === undefined))
    errors.push("OIDC_ISSUER and OIDC_CLIENT_ID must be set together");
  errors.push(...verifiedAgentErrors(config), ...webSearchConfigErrors(config));
  errors.push(...operator.operatorConfigErrors(parsed.data, config));
  errors.push(...billingConfigErrors(parsed.data), ...agentPaymentConfigErrors(parsed.data));
  errors.push(...email.emailConfigErrors(parsed.data));
  return errors.length === 0 ? { ok: true, config } : { ok: false, errors };
}

function buildConfig(
  env: z.infer<typeof EnvironmentSchema>,
  hostName: string,
  providers: Readonly<Record<string, ProviderSetting>>,
): Omit<Config, "readKeyVariable" | "hasOutboundProxy"> {
  const baseUrl = env.POSTERN_BASE_URL ?? `http://127.0.0.1:${env.POSTERN_PORT}`;
  const development = isLoopbackHost(new URL(baseUrl).hostname);
  return {
    host: env.POSTERN_HOST,
    port: env.POSTERN_PORT,
    baseUrl,
    docsUrl: env.POSTERN_DOCS_URL ?? `${baseUrl}/docs`,
    development,
    store: {
      dataDir: env.POSTERN_DATA_DIR,
      commit: env.POSTERN_COMMIT,
      ...(env.POSTERN_DATABASE_POOL_SIZE === undefined
        ? {}
        : { poolSize: env.POSTERN_DATABASE_POOL_SIZE }),
      ...(env.DATABASE_URL === undefined ? {} : { databaseUrl: secret(env.DATABASE_URL) }),
    },
    ...(env.POSTERN_SECRET === undefined ? {} : { secret: secret(env.POSTERN_SECRET) }),
    ...(env.POSTERN_SECRET_PREVIOUS === undefined
      ? {}
      : { previousSecret: secret(env.POSTERN_SECRET_PREVIOUS) }),
    keyPrefix: env.POSTERN_KEY_PREFIX,
    vendor: env.POSTERN_VENDOR,
    ...oidcConfigFrom(env),
    identityPort: env.POSTERN_IDENTITY_PORT ?? (env.POSTERN_PORT === 0 ? 0 : env.POSTERN_PORT + 1),
    ...processes.processConfigFrom(env, `${hostName}:${env.POSTERN_PORT}`),
    ...modelConfigFrom(env),
    ...webSearchConfigFrom(env),
    trustedProxies: env.POSTERN_TRUSTED_PROXIES,
    limits: limitsFrom(env, development),
    timeouts: timeoutConfigFrom(env),
    responseStorage: {
      mode: env.POSTERN_STORE_RESPONSES,
      retentionDays: env.POSTERN_RESPONSE_RETENTION_DAYS,
    },
    promptRetentionDays: env.POSTERN_PROMPT_RETENTION_DAYS,
    dataPolicy: dataPolicyConfigFrom(env),
    log: { level: env.POSTERN_LOG_LEVEL, form: env.POSTERN_LOG_FORM },
    ...(env.POSTERN_SECURITY_CONTACT === undefined
      ? {}
      : { securityContact: env.POSTERN_SECURITY_CONTACT }),
    ...(env.POSTERN_METRICS_TOKEN === undefined
      ? {}
      : { metricsToken: secret(env.POSTERN_METRICS_TOKEN) }),
    shutdownDelaySeconds: env.POSTERN_SHUTDOWN_DELAY_SECONDS ?? (development ? 0 : 5),
    drainSeconds: env.POSTERN_DRAIN_SECONDS,
    billing: billingConfigFrom(env),
    operators: env.POSTERN_OPERATORS,
    operatorApproval: env.POSTERN_OPERATOR_APPROVAL,
    alerts: operator.alertConfigFrom(env),
    hasLedgerProofs: env.POSTERN_LEDGER_PROOFS === "on",
    verifyLedgerHours: env.POSTERN_VERIFY_LEDGER_HOURS ?? (development ? 0 : 24),
    ...email.emailConfigFrom(env),
    ...retentionConfigFrom(env, env.POSTERN_DATA_DIR),
    verifiedAgents: env.POSTERN_VERIFIED_AGENTS,
    ...agentPaymentConfigFrom(env),
    ...parseTelemetryConfig(env),
    providers,
  };
}

function limitsFrom(
  env: z.infer<typeof EnvironmentSchema>,
  development: boolean,
): Config["limits"] {
  const outsideDevelopment = <T>(configured: T | undefined, fallback: T, inDevelopment: T): T =>
    configured ?? (development ? inDevelopment : fallback);
  return {
    accountsPerHour: outsideDevelopment(env.POSTERN_ACCOUNTS_PER_HOUR, 20, 0),
    grantPerDay: outsideDevelopment(env.POSTERN_GRANT_USD_PER_DAY, 5_000_000_000n, 0n),
    whenGrantsExhausted: env.POSTERN_GRANT_EXHAUSTED,
    proofOfWorkBits: env.POSTERN_PROOF_OF_WORK_BITS,
    requestsPerMinute: outsideDevelopment(env.POSTERN_REQUESTS_PER_MINUTE, 600, 0),
    openCallsPerKey: outsideDevelopment(env.POSTERN_OPEN_CALLS_PER_KEY, 100, 0),
    fetchedFilesPerMinute: env.POSTERN_FETCHED_FILES_PER_MINUTE,
    connectionsPerNetwork: env.POSTERN_CONNECTIONS_PER_NETWORK ?? (development ? 0 : undefined),
    claimsPerHour: outsideDevelopment(env.POSTERN_CLAIMS_PER_HOUR, 20, 0),
    claimBonusPerDay: outsideDevelopment(env.POSTERN_CLAIM_BONUS_USD_PER_DAY, 25_000_000_000n, 0n),
  };
}
