// The composition root: creates every service from the settings, each with explicit dependencies.

import { isGrantBudgetUsedUp } from "../accounts/creation-limits.ts";
import type { LeasedWork } from "../base/async/leased-work.ts";
import type { JobRun } from "../base/job-run.ts";
import type { Log } from "../base/log.ts";
import { createTxtResolver } from "../base/network/dns-txt.ts";
import { resolveHost } from "../base/network/public-endpoint.ts";
import { HOUR_MS, SECOND_MS } from "../base/time.ts";
import { deriveBatchKek } from "../batches/batch-encryption.ts";
import { type BatchRunner, createBatchRunner } from "../batches/batch-runner.ts";
import { type Batches, createBatches } from "../batches/batches.ts";
import { createFiles, type Files } from "../batches/files/files.ts";
import { type Billing, createBilling } from "../billing/create-billing.ts";
import { findRefusedTopUps } from "../billing/top-up/top-up-outcome.ts";
import { createOptionalChainClient } from "../billing/x402/x402-protocol.ts";
import { type ClaimLimits, type Claims, createClaims } from "../claims/claims.ts";
import type { Config } from "../config/config.ts";
import { createNetworkBlocks, type NetworkBlocks } from "../controls/blocks.ts";
import { createLiveLimits, type LiveLimits } from "../controls/limits.ts";
import { createEmailWorker, type EmailWorker } from "../email/email-worker.ts";
import { createSmtpSender } from "../email/smtp.ts";
import { estimateBatchItem } from "../inference/lifecycle/estimate-item.ts";
import { expandPreset } from "../inference/lifecycle/expand-preset.ts";
import { rejectIfFrozen } from "../inference/lifecycle/hold/hold.ts";
import { infer } from "../inference/lifecycle/infer.ts";
import { findLiveKey } from "../keys/live-keys.ts";
import type { ProofDeps } from "../ledger-proofs/find-proof.ts";
import { findDueDay, type PublishDeps, publishDueDays } from "../ledger-proofs/publish-day.ts";
import { createPublishedLog } from "../ledger-proofs/published-log.ts";
import { findFreeze } from "../ledger/freezes.ts";
import { isFirstProcess } from "../ledger/running-processes.ts";
import { GATEWAY_CREDENTIAL } from "../models/models-file.ts";
import { createOperatorContext } from "../operator/create-operator.ts";
import type { OperatorContext } from "../operator/page-context.ts";
import { createKeptForms, type KeptForms } from "../people/kept-form.ts";
import { createSessions, type Sessions } from "../people/sessions.ts";
import { createSignIn, type IdentitySettings, type SignIn } from "../people/sign-in.ts";
import type { ResponsesDeps } from "../responses/responses.ts";
import { createSinkWorker } from "../sinks/sink-worker.ts";
import { createSso, type Sso } from "../sso/sso.ts";
import { createAuditStreamWorker } from "../webhooks/audit-stream-worker.ts";
import { createDeliveryWorker, type DeliveryWorker } from "../webhooks/delivery-worker.ts";
import { createWebhooks, type Webhooks } from "../webhooks/webhooks.ts";
import { type Core, openCore } from "./core.ts";
import { type AgentPayments, createAgentPayments } from "./create-agent-payments.ts";
import { paymentOptions } from "./create-discovery-settings.ts";
import {
  createLedgerVerification,
  type LedgerVerification,
  type RunCommand,
} from "./ledger-verification.ts";
import { createModelCalls, type ModelCalls } from "./model-calls.ts";
import { createOperatorAlerts, type OperatorAlerts } from "./operator-alerts.ts";
import type { ServerOptions } from "./server-options.ts";
import { listSettings } from "./settings-list.ts";

export interface Services {
  readonly core: Core;
  readonly modelCalls: ModelCalls;
  readonly batches: Batches;
  readonly batchRunner: BatchRunner;
  readonly files: Files;
  readonly webhooks: Webhooks;
  readonly deliveryWorker: DeliveryWorker;
  readonly auditStreamWorker: LeasedWork;
  readonly sinkWorker: LeasedWork;
  readonly emailWorker: EmailWorker;
  readonly operatorAlerts: OperatorAlerts;
  /** Undefined where the ledger is not verified at an interval. */
  readonly ledgerVerification: LedgerVerification | undefined;
  readonly ledgerProofs: LedgerProofs;
  readonly sessions: Sessions;
  readonly keptForms: KeptForms;
  /** Undefined where no identity provider is set. */
  readonly signIn: SignIn | undefined;
  readonly sso: Sso;
  readonly claims: Claims;
  /** True where no human can sign in, so an account cannot be claimed either. */
  readonly isSignInDisabled: boolean;
  readonly controls: Controls;
  readonly billing: Billing;
  readonly agentPayments: AgentPayments;
  /** The last run of each background job. */
  readonly jobRuns: Map<string, JobRun>;
  /** Undefined where the settings name no operator. */
  readonly operatorContext: OperatorContext | undefined;
}

export async function createServices(
  config: Config,
  options: ServerOptions,
  overload: NonNullable<ServerOptions["overload"]>,
): Promise<Services> {
  const { log, now } = options;
  const { baseUrl, development } = config;
  const identity = options.identity ?? config.identity;
  // In development the bundled identity provider exists even where a test does without it.
  const isSignInDisabled = identity === undefined && !development;
  const core = await openCore(config, options);
  const { db, master } = core;
  const controls = await openControls(db, config.limits);
  const jobRuns = new Map<string, JobRun>();
  // Called while serving, when batches exist.
  const responseQueue: ResponsesDeps["queue"] = {
    add: (...response) => batches.responses.add(...response),
    cancel: (...batch) => batches.responses.cancel(...batch),
  };
  const { current: limits } = controls.limits;
  const context = { isSignInDisabled, jobRuns, limits, responseQueue };
  const modelCalls = createModelCalls(config, options, core, context);
  const calls = { core, modelCalls, overload };
  const { batches, batchRunner, files } = createBatchServices(config, options, calls);
  const allowLoopback = development;
  const webhooks = createWebhooks({ master, allowLoopback });
  const deliveryWorker = createDeliveryWorker({ db, log, now, webhooks, allowLoopback });
  const streams = { db, log, now, master, allowLoopback, resolve: resolveHost };
  const auditStreamWorker = createAuditStreamWorker(streams);
  const sinkWorker = createSinks(config, options, core);
  const send = config.email && createSmtpSender(config.email, baseUrl);
  const sessions = createSessions({ db, master, baseUrl });
  const keptForms = createKeptForms({ master, baseUrl });
  const signIn =
    identity === undefined ? undefined : createSignIn({ settings: identity, baseUrl, master });
  const sso = createSsoService(config, options, master);
  const claims = createClaims({ master, limits: claimLimits(controls) });
  const billing = await openBilling(config, options, core, isSignInDisabled);
  const emailLinks = { baseUrl, receiptPath: billing.deps.links.receiptPath };
  const emailWorker = createEmailWorker({ db, log, now, links: emailLinks, send });
  const agentPayments = createAgentPayments(config, { billing: billing.deps, core, now });
  const ledgerVerification = createVerification(config, options, db);
  const ledgerProofs = createLedgerProofs(config, options, core);
  const operating = { core, modelCalls, jobRuns, controls, ledgerProofs };
  const alerting = { core, modelCalls, ledgerVerification, controls };
  return {
    core,
    modelCalls,
    batches,
    batchRunner,
    files,
    ledgerVerification,
    ledgerProofs,
    webhooks,
    deliveryWorker,
    auditStreamWorker,
    sinkWorker,
    emailWorker,
    operatorAlerts: createAlerts(config, options, alerting),
    sessions,
    keptForms,
    signIn,
    sso,
    claims,
    isSignInDisabled,
    controls,
    billing,
    agentPayments,
    jobRuns,
    operatorContext: createOperator(config, operating, identity),
  };
}

function createSinks(
  { development: allowLoopback }: Config,
  { log, now, version }: ServerOptions,
  { db, master, promptLog }: Core,
): LeasedWork {
  const resolve = resolveHost;
  return createSinkWorker({ db, log, now, master, promptLog, version, allowLoopback, resolve });
}

function createSsoService(
  { baseUrl, development }: Config,
  { resolveTxt = createTxtResolver() }: ServerOptions,
  master: Core["master"],
): Sso {
  const allowLoopback = development;
  return createSso({ master, baseUrl, allowLoopback, resolve: resolveHost, resolveTxt });
}

/** What operators change while the gateway runs. */
interface Controls {
  readonly networks: NetworkBlocks;
  readonly limits: LiveLimits;
}

async function openControls(db: Core["db"], defaults: Config["limits"]): Promise<Controls> {
  const controls = {
    networks: createNetworkBlocks(db),
    limits: createLiveLimits(db, defaults),
  };
  await Promise.all([controls.networks.refresh(), controls.limits.refresh()]);
  return controls;
}

/** As of each claim. */
function claimLimits({ limits }: Controls): ClaimLimits {
  return {
    get startsPerAccount() {
      return limits.current().claimsPerHour;
    },
    get bonusPerDay() {
      return limits.current().claimBonusPerDay;
    },
  };
}

function createAlerts(
  config: Config,
  { log, now }: ServerOptions,
  {
    core: { db, catalog },
    modelCalls,
    ledgerVerification,
    controls,
  }: Pick<Services, "core" | "modelCalls" | "ledgerVerification" | "controls">,
): OperatorAlerts {
  return createOperatorAlerts(config, {
    openCircuits: modelCalls.inference.openCircuits,
    catalog,
    ledgerProblem: () => ledgerVerification?.problem(),
    findRefusedPayments: (at) => findRefusedTopUps(db, at),
    isGrantBudgetUsedUp: (at) => isGrantBudgetUsedUp(db, controls.limits.current().grantPerDay, at),
    log,
    now,
  });
}

function createVerification(
  { verifyLedgerHours: hours, processName }: Config,
  { log, now, runCommand }: ServerOptions,
  db: Core["db"],
): LedgerVerification | undefined {
  return hours === 0 || runCommand === undefined
    ? undefined
    : createLedgerVerification({ db, log, now, processName, hours, runCommand });
}

interface LedgerProofs {
  /** The job; undefined where the settings turn proofs off. */
  readonly publish: (() => Promise<void>) | undefined;
  readonly deps: ProofDeps;
}

function createLedgerProofs(
  { hasLedgerProofs, processName, baseUrl }: Config,
  { log, now, runCommand }: ServerOptions,
  { db, master, signingKeys }: Core,
): LedgerProofs {
  const currentKey = signingKeys.current;
  return {
    publish: hasLedgerProofs
      ? createLedgerPublication({ db, master, baseUrl, log, now, processName, runCommand })
      : undefined,
    deps: { db, master, log: createPublishedLog({ db, baseUrl, currentKey }) },
  };
}

function openBilling(
  config: Config,
  { log, now }: ServerOptions,
  { db, master }: Core,
  isSignInDisabled: boolean,
): Promise<Billing> {
  const { baseUrl, development, billing: settings } = config;
  return createBilling({
    settings,
    db,
    master,
    log,
    now,
    baseUrl,
    development,
    paymentOptions: paymentOptions(config),
    isSignInDisabled,
  });
}

function createOperator(
  config: Config,
  {
    core,
    modelCalls,
    jobRuns,
    controls,
    ledgerProofs,
  }: Pick<Services, "core" | "modelCalls" | "jobRuns" | "controls" | "ledgerProofs">,
  identity: IdentitySettings | undefined,
): OperatorContext | undefined {
  const { db, master, idempotency } = core;
  return createOperatorContext({
    controls,
    publishedLog: ledgerProofs.deps.log,
    approval: config.operatorApproval,
    system: {
      settings: listSettings(config),
      jobRuns,
      callableModels: () =>
        core.catalog
          .current()
          .models.filter(({ provider }) => modelCalls.inference.isAvailable(provider)),
      keysAt: (provider) =>
        (modelCalls.inference.accountAt(provider)?.credentials ?? []).map(
          ({ label: name, weight = 1 }) => ({
            name,
            weight,
            isFromSettings: name === GATEWAY_CREDENTIAL,
          }),
        ),
      get grantPerDay() {
        return controls.limits.current().grantPerDay;
      },
      verifiedAgents: config.verifiedAgents.map(({ url, accountsPerHour, startingCredit }) => ({
        url: new URL(url).origin,
        accountsPerHour,
        startingCredit,
      })),
    },
    db,
    master,
    idempotency,
    baseUrl: config.baseUrl,
    operators: config.operators,
    identity,
    chain: createOptionalChainClient(config.x402?.rpcUrl),
  });
}

// Creates the services of batches.

interface BatchContext {
  readonly core: Core;
  readonly modelCalls: ModelCalls;
  readonly overload: NonNullable<ServerOptions["overload"]>;
}

function createBatchServices(
  config: Config,
  { log, now, batchPollMs = SECOND_MS, batchSlots }: ServerOptions,
  { core: { db, master, epoch }, modelCalls: { inference, responses }, overload }: BatchContext,
): { readonly batches: Batches; readonly batchRunner: BatchRunner; readonly files: Files } {
  const kek = deriveBatchKek(master);
  const { findPreset: find, parse, route, plan, respond, hold } = inference.infer;
  const withoutBatches = new Set<string>();
  const batchRunner = createBatchRunner({
    db,
    kek,
    log,
    now,
    process: config.processName,
    epoch,
    infer: (input) => infer(inference.infer, input),
    findKey: (keyId, at) => findLiveKey(db, keyId, at),
    isFrozen: async (accountId) => (await findFreeze(db, accountId)) !== undefined,
    target: { parse, route, plan, respond },
    pollMinMs: batchPollMs,
    slotsMax: batchSlots,
    onNoBatches: (provider) => withoutBatches.add(provider),
    isBusy: () => overload !== "off" && overload.isBusy(),
    endResponse: responses.endQueued,
  });
  const batches = createBatches({
    db,
    kek,
    now,
    expandPreset: (input) => expandPreset(find, input),
    estimateItem: (input) => estimateBatchItem({ parse, route, plan }, input),
    hasNoBatches: (provider) => withoutBatches.has(provider),
    rejectIfFrozen: (accountId) => rejectIfFrozen(inference.countTokens, accountId),
    rateOf: hold.rates.limitOf,
    paymentOptions: paymentOptions(config),
    wake: () =>
      void batchRunner.claim().catch((cause: unknown) => log.warn("batches wait", { cause })),
  });
  return { batches, batchRunner, files: createFiles({ db, kek }) };
}

// Publishes the ledger's roots once a day is complete. It runs in a process of its own where there is one, because reading
// SQLite would hold the event loop.

interface PublicationDeps extends PublishDeps {
  readonly log: Log;
  readonly now: () => number;
  readonly processName: string;
  readonly runCommand: RunCommand | undefined;
}

/** Returns the job. */
function createLedgerPublication(deps: PublicationDeps): () => Promise<void> {
  const { db, log, now, processName, runCommand } = deps;
  let retryAt = 0;
  let isRunning = false;
  const publish = async (at: number): Promise<void> => {
    // A first day without accounts has no record and stays due.
    retryAt = at + HOUR_MS;
    if (runCommand === undefined) await publishDueDays(deps, at);
    else await runCommand(["admin", "publish-ledger"]);
    if ((await findDueDay(db, at)) === undefined) log.info("published the roots of the ledger");
  };
  return async () => {
    const at = now();
    if (isRunning || Math.abs(retryAt - at) < HOUR_MS) return;
    if ((await findDueDay(db, at)) === undefined) return;
    if (!(await isFirstProcess(db, processName, at))) return;
    isRunning = true;
    // Not awaited: shutdown waits for running jobs, and this one may take a minute.
    void publish(at)
      .catch((cause: unknown) => {
        log.error("the roots of the ledger could not be published", { cause });
      })
      .finally(() => {
        isRunning = false;
      });
  };
}
