// The settings as this process read them, for the operator's pages. Each is listed by hand, and a secret only as "set", so
// that a new setting cannot leak by being forgotten.

import { dataRulesText } from "../base/data-rules.ts";
import { usdText } from "../base/money/money.ts";
import type { Config } from "../config/config.ts";

type Setting = readonly [name: string, value: string];

const isSet = (value: unknown): string => (value === undefined ? "not set" : "set");
const orNone = (value: string | number): string =>
  value === 0 || value === "" ? "none" : `${value}`;

export function listSettings(config: Config): readonly Setting[] {
  const { limits, dataPolicy, responseStorage, usageRetention, log, store } = config;
  return [
    ["POSTERN_BASE_URL", config.baseUrl],
    ["Development mode", config.development ? "on" : "off"],
    ["POSTERN_HOST", config.host],
    ["POSTERN_PORT", String(config.port)],
    ["POSTERN_PROCESS_NAME", config.processName],
    ["Store", store.databaseUrl === undefined ? `SQLite in ${store.dataDir}` : "PostgreSQL"],
    ["POSTERN_SECRET", isSet(config.secret)],
    ["POSTERN_SECRET_PREVIOUS", isSet(config.previousSecret)],
    ["POSTERN_KEY_PREFIX", config.keyPrefix],
    ["Providers with an account", orNone(Object.keys(config.providers).join(", "))],
    ["POSTERN_MODELS_FILE", config.modelsFile ?? "not set"],
    ["POSTERN_PRICES_FILE", config.pricesFile ?? "not set"],
    ["POSTERN_ALLOW_UNKNOWN_FIELDS", orNone(config.allowUnknownFields.join(", "))],
    ["POSTERN_ANTHROPIC_USER_ID", String(config.sendsAnthropicUserId)],
    ...webSearchSettings(config),
    ["POSTERN_TRUSTED_PROXIES", orNone(config.trustedProxies.join(", "))],
    ["OIDC_ISSUER", config.identity?.issuer ?? "not set"],
    ["POSTERN_CLIENT_DOCUMENTS", onOrOff(config.hasClientDocuments)],
    ["POSTERN_OPERATORS", config.operators.join(", ")],
    ["POSTERN_OPERATOR_APPROVAL", config.operatorApproval],
    ...limitSettings(limits),
    ["POSTERN_REQUEST_TIMEOUT_SECONDS", String(config.timeouts.requestSeconds)],
    ["POSTERN_STREAM_TIMEOUT_SECONDS", String(config.timeouts.streamSeconds)],
    ["POSTERN_STREAM_IDLE_TIMEOUT_SECONDS", String(config.timeouts.streamIdleSeconds)],
    ["POSTERN_STORE_RESPONSES", responseStorage.mode],
    ["POSTERN_RESPONSE_RETENTION_DAYS", String(responseStorage.retentionDays)],
    ["POSTERN_PROMPT_RETENTION_DAYS", String(config.promptRetentionDays)],
    ["POSTERN_DATA_POLICY", orNone(dataRulesText(dataPolicy.rules ?? {}))],
    ["POSTERN_ZDR_PROVIDERS", orNone([...dataPolicy.zdrProviders].join(", "))],
    [
      "Retention of usage records",
      usageRetention === undefined ? "forever" : `${usageRetention.days} days`,
    ],
    ["POSTERN_VERIFY_LEDGER_HOURS", String(config.verifyLedgerHours)],
    ["POSTERN_LEDGER_PROOFS", onOrOff(config.hasLedgerProofs)],
    ["x402 payments", config.x402 === undefined ? "off" : "on"],
    ["Tempo payments", config.tempo === undefined ? "off" : `on chain ${config.tempo.chainId}`],
    ["STRIPE_NETWORK_ID", config.billing.stripe?.networkId ?? "not set"],
    ["Telemetry", config.telemetry === undefined ? "off" : "on"],
    ["POSTERN_METRICS_TOKEN", isSet(config.metricsToken)],
    ["POSTERN_LOG_LEVEL", log.level],
    ["POSTERN_DRAIN_SECONDS", String(config.drainSeconds)],
    ["POSTERN_SECURITY_CONTACT", config.securityContact ?? "not set"],
  ];
}

function webSearchSettings({ webSearch }: Pick<Config, "webSearch">): readonly Setting[] {
  if (webSearch === undefined) return [["POSTERN_SEARCH", "not set"]];
  const { backend, apiKey, baseUrl = "default", fee, fetchFee } = webSearch;
  return [
    ["POSTERN_SEARCH", backend],
    ["POSTERN_SEARCH_API_KEY", isSet(apiKey)],
    ["POSTERN_SEARCH_BASE_URL", baseUrl],
    ["POSTERN_SEARCH_USD", usdText(fee)],
    ["POSTERN_WEB_FETCH", fetchFee === undefined ? "off" : "on"],
    ["POSTERN_WEB_FETCH_USD", fetchFee === undefined ? "-" : usdText(fetchFee)],
  ];
}

function onOrOff(isOn: boolean): string {
  return isOn ? "on" : "off";
}

function limitSettings(limits: Config["limits"]): readonly Setting[] {
  return [
    ["POSTERN_ACCOUNTS_PER_HOUR", orNone(limits.accountsPerHour)],
    ["POSTERN_GRANT_USD_PER_DAY", orNone(usdText(limits.grantPerDay))],
    ["POSTERN_GRANT_EXHAUSTED", limits.whenGrantsExhausted],
    ["POSTERN_CLAIM_BONUS_USD_PER_DAY", orNone(usdText(limits.claimBonusPerDay))],
    ["POSTERN_CLAIMS_PER_HOUR", orNone(limits.claimsPerHour)],
    ["POSTERN_REQUESTS_PER_MINUTE", orNone(limits.requestsPerMinute)],
    ["POSTERN_OPEN_CALLS_PER_KEY", orNone(limits.openCallsPerKey)],
    ["POSTERN_FETCHED_FILES_PER_MINUTE", orNone(limits.fetchedFilesPerMinute)],
    ["POSTERN_CONNECTIONS_PER_NETWORK", orNone(limits.connectionsPerNetwork ?? "default")],
  ];
}
