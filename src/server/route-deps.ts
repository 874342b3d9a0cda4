// The dependencies of each module's routes, one object per module.

import { createExports } from "../account-data/export-stream.ts";
import { recordOwnerSignIn } from "../accounts/accounts.ts";
import { createProofOfWork } from "../accounts/proof-of-work.ts";
import { deriveKey } from "../base/crypto/encryption.ts";
import { CLAIM_STEP } from "../base/fault.ts";
import { resolveHost } from "../base/network/public-endpoint.ts";
import { fundingSteps } from "../base/purchase-steps.ts";
import { createWorkspace } from "../claims/new-workspace.ts";
import type { Config } from "../config/config.ts";
import { createDeviceLogins } from "../device-login/device-login.ts";
import { operatorLinks } from "../http/pages/operator-links.ts";
import { findApiKey } from "../http/request/api-key-header.ts";
import type { Inference } from "../inference/inference.ts";
import { PROVIDERS } from "../inference/providers/providers.ts";
import { readAffordable } from "../keys/affordable.ts";
import { findLiveKey } from "../keys/live-keys.ts";
import { probeHoldWrite } from "../ledger/write-probe.ts";
import { createAuthorizationCodes } from "../mcp-sign-in/authorization-codes.ts";
import { createMcpClients } from "../mcp-sign-in/mcp-clients.ts";
import type { McpRouteDeps } from "../mcp/mcp-routes.ts";
import { createMcpSessions } from "../mcp/mcp-sessions.ts";
import { cheapestModels, type CheapModel } from "../models/cheapest-models.ts";
import { createReadinessCheck } from "../operations/readiness.ts";
import { listCallableProviders } from "../provider-keys/key-finder.ts";
import { findSsoWorkspace, hasConnections } from "../sso/connections.ts";
import { ssoPath } from "../sso/sso.ts";
import { createStatus } from "../status/availability.ts";
import type { Db } from "../store/db.ts";
import { createVerifyAgent } from "../verified-agents/verified-agents.ts";
import {
  discoverySettings,
  exampleModelOf,
  paymentMethods,
  paymentOptions,
} from "./create-discovery-settings.ts";
import { createMeasuredModels } from "./measured-models.ts";
import type { RouteDeps } from "./route-table.ts";
import type { ServerOptions } from "./server-options.ts";
import type { Services } from "./services.ts";

/** The functions of the request handler that routes use; it is created after them. */
export interface RequestHandling {
  readonly isLeaving: () => boolean;
  readonly handle: McpRouteDeps["handle"];
  readonly webSockets: RouteDeps["responses"]["webSockets"];
}

export function createRouteDeps(
  config: Config,
  options: ServerOptions,
  services: Services,
  { isLeaving, handle, webSockets }: RequestHandling,
): RouteDeps {
  const { baseUrl } = config;
  const { log, now, version } = options;
  const { webhooks, claims, sessions, sso, isSignInDisabled, operatorContext } = services;
  const { db, master, keys, signedRequests, signingKeys } = services.core;
  const { providerKeys, responses, inference } = services.modelCalls;
  const billing = services.billing.deps;
  const { x402, mpp } = services.agentPayments;
  const accountData = { db, startExport: createExports(log), billing };
  return {
    db,
    accounts: accountRouteDeps(config, services),
    accountData,
    inference: inferenceRouteDeps(now, services),
    responses: {
      responses,
      webSockets,
      db,
      storage: config.responseStorage,
      onStorageChanged: keys.forgetLookUps,
    },
    batches: { batches: services.batches, baseUrl },
    files: services.files,
    models: modelRouteDeps(config, services),
    signingKeys,
    receipts: { db, baseUrl, signingKeys },
    ledgerProofs: services.ledgerProofs.deps,
    keys: { db, keys, provePublicKey: signedRequests.provePublicKey },
    providerKeys: { db, providerKeys },
    guardrails: {
      db,
      allowLoopback: config.development,
      decisionModels: () => decisionModels(services),
      onChanged: keys.forgetLookUps,
    },
    mcpServers: { db, master, allowLoopback: config.development },
    webhooks: { db, webhooks },
    sinks: { db, master, allowLoopback: config.development, onChanged: keys.forgetLookUps },
    billing: { billing, x402: x402?.deps, mpp },
    claims: { db, claims, baseUrl, vendor: config.vendor, isSignInDisabled },
    claimPages: { db, claims, master, baseUrl, consolePath: "/console" },
    deviceLogin: deviceLoginDeps(services, baseUrl),
    appSignIn: appSignInDeps(services),
    mcpSignIn: mcpSignInDeps(services, config),
    people: peopleDeps(services, baseUrl, sendsEmails(config)),
    sso: { db, sso, sessions, baseUrl },
    emails: emailDeps(config, services),
    agentSessions: { db, onSessionStopped: inference.stoppedSessions.add },
    console: consoleDeps(config, services, accountData),
    operator: { operatorContext },
    operations: operationsRouteDeps(config, options, services, isLeaving),
    mcp: mcpDeps(config, services, { handle, version }),
    readStatus: createStatus({ db: services.core.db, providerName }),
    discovery: discoveryDeps(config, options, services),
  };
}

function discoveryDeps(
  config: Config,
  { now, version }: ServerOptions,
  services: Services,
): RouteDeps["discovery"] {
  return discoverySettings(config, version, services.isSignInDisabled, {
    cheapModels: cheapestNow(services, now()),
    startedAt: now(),
  });
}

/** In development, emails are kept and shown instead. */
function sendsEmails({ email, development }: Config): boolean {
  return email !== undefined || development;
}

function consoleDeps(
  config: Config,
  services: Services,
  accountData: RouteDeps["accountData"],
): RouteDeps["console"] {
  const { baseUrl, development: isDevelopment } = config;
  const { webhooks, sso } = services;
  const { db, master, idempotency, keys, promptLog } = services.core;
  const { providerKeys, inference } = services.modelCalls;
  return {
    db,
    baseUrl,
    sendsEmails: sendsEmails(config),
    operatorLinks: operatorLinks(config.billing.operator),
    onSessionStopped: inference.stoppedSessions.add,
    accountData,
    keys,
    sso,
    endpoints: { master, allowLoopback: isDevelopment },
    providerKeys,
    webhooks,
    idempotency,
    promptLog,
    billing: services.billing.deps,
    ledgerProofs: services.ledgerProofs.deps,
    storage: config.responseStorage,
    createWorkspace: workspaceCreation(services),
    isDevelopment,
    snippets: { baseUrl, model: exampleModelOf(config) },
    callableModels: () => callableModels(services),
    decisionModels: () => decisionModels(services),
    forgetLookUps: keys.forgetLookUps,
    batches: services.batches,
  };
}

function peopleDeps(
  { core: { db }, sessions, keptForms, signIn }: Services,
  baseUrl: string,
  canSendEmails: boolean,
): RouteDeps["people"] {
  return {
    db,
    sessions,
    keptForms,
    signIn,
    baseUrl,
    sendsEmails: canSendEmails,
    workspaceSignIn: workspaceSignIn(db),
  };
}

function workspaceSignIn(db: Db): RouteDeps["people"]["workspaceSignIn"] {
  return {
    isOffered: () => hasConnections(db),
    findPath: async (email, returnTo) => {
      const accountId = await findSsoWorkspace(db, email);
      if (accountId === undefined) return undefined;
      const query = new URLSearchParams({ return_to: returnTo, login_hint: email });
      return `${ssoPath(accountId)}?${query.toString()}`;
    },
    onSignedIn: recordOwnerSignIn,
  };
}

function emailDeps(
  { baseUrl, development, email }: Config,
  { core: { db }, billing }: Services,
): RouteDeps["emails"] {
  const links = { baseUrl, receiptPath: billing.deps.links.receiptPath };
  return { db, links, isDevelopment: development, isSmtpSet: email !== undefined };
}

function cheapestNow(
  { core: { catalog }, modelCalls: { inference } }: Services,
  now: number,
): readonly CheapModel[] {
  return cheapestModels(catalog.current().models, inference.isAvailable, now);
}

function operationsRouteDeps(
  { metricsToken, development }: Config,
  { log, now, version }: ServerOptions,
  { core: { db, ledger, lease }, modelCalls: { metrics } }: Services,
  isDraining: () => boolean,
): RouteDeps["operations"] {
  return {
    version,
    metrics,
    isWritable: createReadinessCheck(
      async () => {
        await lease.renew();
        if (ledger.isFailing()) await probeHoldWrite(db, now());
      },
      { log },
    ),
    isDraining,
    metricsAccess: metricsToken ?? (development ? "open" : "off"),
  };
}

function mcpDeps(
  config: Config,
  { core: { db, master, keys, signedRequests, explainRejectedKey }, isSignInDisabled }: Services,
  { handle, version }: Pick<McpRouteDeps, "handle" | "version">,
): McpRouteDeps {
  return {
    baseUrl: config.baseUrl,
    paymentMethods: paymentMethods(config).map(({ method }) => method),
    db,
    sessions: createMcpSessions(master),
    stateKey: deriveKey(master, "mcp/request-state/v1")[0],
    findKey: async (raw, at) => await keys.find(raw, at, "cache"),
    signedRequests,
    findKeyById: (id, at) => findLiveKey(db, id, at),
    explainRejectedKey,
    isSignInDisabled,
    handle,
    version,
  };
}

function deviceLoginDeps(
  { core: { db, master, keys }, isSignInDisabled }: Services,
  baseUrl: string,
): RouteDeps["deviceLogin"] {
  const deviceLogins = createDeviceLogins({ master, keys });
  return { db, keys, baseUrl, isSignInDisabled, deviceLogins };
}

function appSignInDeps({
  core: { db, master, keys },
  isSignInDisabled,
}: Services): RouteDeps["appSignIn"] {
  if (isSignInDisabled) return undefined;
  return { db, keys, codes: createAuthorizationCodes(master, keys, "app") };
}

function mcpSignInDeps(
  { core: { db, master, keys }, isSignInDisabled }: Services,
  { baseUrl, development, hasClientDocuments }: Config,
): RouteDeps["mcpSignIn"] {
  if (isSignInDisabled) return undefined;
  return {
    db,
    keys,
    baseUrl,
    clients: createMcpClients({
      master,
      resolve: resolveHost,
      allowLoopback: development,
      hasDocuments: hasClientDocuments,
    }),
    codes: createAuthorizationCodes(master, keys, "mcp_client"),
    requestKey: deriveKey(master, "mcp-sign-in/request/v1"),
  };
}

function workspaceCreation({
  claims,
  core: { keys },
}: Services): RouteDeps["console"]["createWorkspace"] {
  return async (tx, { owner, name, clientIp, now }) => {
    const request = { owner, name, clientIp, now };
    const { account, raw, bonus } = await createWorkspace(tx, request, { claims, keys });
    return { accountId: account.id, raw, bonus };
  };
}

function quoteDeps(
  db: Db,
  { infer, countTokens: { freezeOf, isClaimed } }: Inference,
): RouteDeps["inference"]["quote"] {
  const { findPreset, route, offers, hold } = infer;
  return {
    findPreset,
    route,
    offers,
    recentOutputs: hold.recentOutputs,
    freezeOf,
    isClaimed,
    affordableOf: (caller, now) => readAffordable(db, caller, now),
  };
}

/** As a request names them. */
function decisionModels({
  core: { catalog },
  modelCalls: { inference },
}: Services): readonly string[] {
  return catalog
    .current()
    .models.filter(
      ({ provider, wires }) => inference.isAvailable(provider) && wires.includes("decisions"),
    )
    .map(({ id }) => id);
}

function callableModels({
  core: { catalog },
  modelCalls: { inference },
}: Services): readonly string[] {
  return catalog
    .current()
    .models.filter(({ provider }) => inference.isAvailable(provider))
    .map(({ id }) => id);
}

function inferenceRouteDeps(
  now: () => number,
  { core: { db, idempotency }, modelCalls: { inference }, agentPayments }: Services,
): RouteDeps["inference"] {
  const { withPayment, runWalletCall } = agentPayments;
  const { parse, route } = inference.infer;
  return {
    infer: inference.infer,
    countTokens: inference.countTokens,
    quote: quoteDeps(db, inference),
    idempotency: {
      db,
      now,
      findKey: findLiveKey,
      begin: idempotency.begin,
      release: idempotency.release,
    },
    wallet: runWalletCall && {
      runWalletCall,
      estimate: { parse, route },
      trackCall: inference.trackCall,
    },
    payment: withPayment && { payAndRun: withPayment, trackCall: inference.trackCall },
  };
}

const PROVIDER_NAMES = new Map(PROVIDERS.map(({ id, name }) => [id, name]));

function providerName(id: string): string {
  return PROVIDER_NAMES.get(id) ?? id;
}

function modelRouteDeps(
  { dataPolicy }: Config,
  { core, modelCalls: { inference } }: Services,
): RouteDeps["models"] {
  return {
    zdrProviders: dataPolicy.zdrProviders,
    catalog: core.catalog,
    providerName,
    isAvailable: inference.isAvailable,
    health: inference.health,
    measured: createMeasuredModels(core.db),
    callerAccess: async (sources, dialect, now) => {
      // A public endpoint ignores what is not an API key.
      const raw = findApiKey(sources, dialect);
      const key = raw === undefined ? undefined : await core.keys.find(raw, now, "cache");
      if (key === undefined) return undefined;
      const ownProviders = await listCallableProviders(core.db, key);
      const dataRules = [key.policy?.dataPolicy, key.dataPolicy].filter((one) => one !== undefined);
      return { ownProviders, policy: key.policy, dataRules };
    },
  };
}

function accountRouteDeps(config: Config, services: Services): RouteDeps["accounts"] {
  const {
    core: { db, keys, master, signedRequests },
    isSignInDisabled,
    operatorAlerts,
    controls,
  } = services;
  const { limits, development, verifiedAgents, baseUrl } = config;
  const { proofOfWorkBits } = limits;
  return {
    db,
    keys,
    limits: {
      get perHour() {
        return controls.limits.current().accountsPerHour;
      },
      get grantPerDay() {
        return controls.limits.current().grantPerDay;
      },
      whenExhausted: limits.whenGrantsExhausted,
    },
    proofOfWork: proofOfWorkBits === 0 ? undefined : createProofOfWork(master, proofOfWorkBits),
    verifyAgent: createVerifyAgent({
      agents: verifiedAgents,
      baseUrl,
      allowLoopback: development,
      resolve: resolveHost,
    }),
    provePublicKey: signedRequests.provePublicKey,
    fundingSteps: fundingSteps(paymentOptions(config), { isSignInDisabled }),
    claimStep: isSignInDisabled ? undefined : CLAIM_STEP,
    cheapestModel: (at) => cheapestNow(services, at)[0],
    onGrantBudgetReached: operatorAlerts.onGrantBudgetReached,
    requiresSameOrigin: development,
  };
}
