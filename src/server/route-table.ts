// The route table: every route of the API and the pages.

import { type AccountDataDeps, accountDataRoutes } from "../account-data/account-data-routes.ts";
import { type AccountRouteDeps, accountRoutes } from "../account-data/accounts-routes.ts";
import { balanceAlertRoutes } from "../accounts/balance-alert-routes.ts";
import { billingDetailsRoutes } from "../accounts/billing-details-routes.ts";
import { budgetRoutes } from "../accounts/budgets-routes.ts";
import { activityRoutes } from "../activity/activity-routes.ts";
import {
  type AgentSessionDeps,
  agentSessionRoutes,
} from "../agent-sessions/agent-sessions-routes.ts";
import { type AppSignInDeps, appSignInRoutes } from "../app-sign-in/app-sign-in-routes.ts";
import { batchRoutes } from "../batches/batches-routes.ts";
import type { BatchRouteDeps } from "../batches/batches.ts";
import { fileRoutes } from "../batches/files/files-routes.ts";
import type { Files } from "../batches/files/files.ts";
import { type BillingRouteDeps, billingRoutes } from "../billing/invoices/invoices-routes.ts";
import { payPageRoutes } from "../billing/invoices/pay-page-routes.ts";
import { mppRoutes } from "../billing/mpp/mpp-protocol.ts";
import { x402Routes } from "../billing/x402/x402-protocol.ts";
import { type ClaimPageDeps, claimPageRoutes } from "../claims/claim-page-routes.ts";
import { type ClaimRouteDeps, claimRoutes } from "../claims/claims-routes.ts";
import { type ConsoleRouteDeps, consoleRoutes } from "../console/console-routes.ts";
import {
  type DeviceLoginRouteDeps,
  deviceLoginRoutes,
} from "../device-login/device-login-routes.ts";
import { type DevicePageDeps, devicePageRoutes } from "../device-login/device-page-routes.ts";
import { discoveryRoutes } from "../discovery/discovery-routes.tsx";
import type { DiscoverySettings } from "../discovery/discovery-settings.ts";
import { modelPageRoutes } from "../discovery/model-pages/model-pages-routes.ts";
import { serviceLevelRoutes } from "../discovery/service-levels-page/service-level-routes.ts";
import { statusPageRoutes } from "../discovery/status-page/status-routes.ts";
import { type EmailRouteDeps, emailRoutes } from "../email/email-routes.ts";
import { type GuardrailRouteDeps, guardrailRoutes } from "../guardrails/guardrails-routes.ts";
import type { Route } from "../http/route.ts";
import { type InferenceRouteDeps, inferenceRoutes } from "../inference/api/inference-routes.ts";
import { type KeyRouteDeps, keyRoutes } from "../keys/keys-routes.ts";
import type { ProofDeps } from "../ledger-proofs/find-proof.ts";
import { ledgerProofRoutes } from "../ledger-proofs/ledger-proofs-routes.ts";
import { type McpServerRouteDeps, mcpServerRoutes } from "../mcp-servers/mcp-servers-routes.ts";
import { type McpSignInDeps, mcpSignInRoutes } from "../mcp-sign-in/mcp-sign-in-routes.ts";
import { type McpRouteDeps, mcpRoutes } from "../mcp/mcp-routes.ts";
import { type ModelRoutesDeps, modelRoutes } from "../models/models-routes.ts";
import { type OperationsDeps, operationsRoutes } from "../operations/operations-routes.ts";
import { type OperatorRouteDeps, operatorRoutes } from "../operator/operator-routes.ts";
import { type PeopleRouteDeps, peopleRoutes } from "../people/people-routes.ts";
import { presetRoutes } from "../presets/presets-routes.ts";
import {
  type ProviderKeyRouteDeps,
  providerKeyRoutes,
} from "../provider-keys/provider-keys-routes.ts";
import { type ReceiptRouteDeps, receiptRoutes } from "../receipts/receipts-routes.ts";
import { type ResponsesRouteDeps, responsesRoutes } from "../responses/responses-routes.ts";
import { scimRoutes } from "../scim/scim-routes.ts";
import { serviceCreditRoutes } from "../service-levels/service-credits-routes.ts";
import { listServiceLevels } from "../service-levels/service-levels.ts";
import type { SigningKeys } from "../signing/signing-keys.ts";
import { signingRoutes } from "../signing/signing-routes.ts";
import { type SinkRouteDeps, sinkRoutes } from "../sinks/sinks-routes.ts";
import { type SsoRouteDeps, ssoRoutes } from "../sso/sso-routes.ts";
import type { StatusSnapshot } from "../status/availability.ts";
import type { Db } from "../store/db.ts";
import { usageRoutes } from "../usage/usage-routes.ts";
import { type WebhookRouteDeps, webhookRoutes } from "../webhooks/webhooks-routes.ts";

/** One object per module. `db` is for modules whose routes only read. */
export interface RouteDeps {
  readonly db: Db;
  readonly accounts: AccountRouteDeps;
  readonly accountData: AccountDataDeps;
  readonly inference: InferenceRouteDeps;
  readonly responses: ResponsesRouteDeps;
  readonly batches: BatchRouteDeps;
  readonly files: Files;
  readonly models: ModelRoutesDeps;
  readonly signingKeys: SigningKeys;
  readonly receipts: ReceiptRouteDeps;
  readonly ledgerProofs: ProofDeps;
  readonly keys: KeyRouteDeps;
  readonly providerKeys: ProviderKeyRouteDeps;
  readonly guardrails: GuardrailRouteDeps;
  readonly sinks: SinkRouteDeps;
  readonly mcpServers: McpServerRouteDeps;
  readonly webhooks: WebhookRouteDeps;
  readonly billing: BillingRouteDeps;
  readonly claims: ClaimRouteDeps;
  readonly claimPages: ClaimPageDeps;
  readonly deviceLogin: DeviceLoginRouteDeps & DevicePageDeps;
  /** Absent, like the next, without an identity provider: no person could sign in. */
  readonly appSignIn: AppSignInDeps | undefined;
  readonly mcpSignIn: McpSignInDeps | undefined;
  readonly people: PeopleRouteDeps;
  readonly sso: SsoRouteDeps;
  readonly emails: EmailRouteDeps;
  readonly agentSessions: AgentSessionDeps;
  readonly console: ConsoleRouteDeps;
  readonly operator: OperatorRouteDeps;
  readonly operations: OperationsDeps;
  readonly mcp: McpRouteDeps;
  readonly discovery: DiscoverySettings;
  readonly readStatus: (now: number) => Promise<StatusSnapshot>;
}

/** In the order in which the documents list them. */
export function allRoutes(deps: RouteDeps): readonly Route[] {
  const { db } = deps;
  const routes = [
    ...accountRoutes(deps.accounts),
    ...accountDataRoutes(deps.accountData),
    ...budgetRoutes({ db }),
    ...inferenceRoutes(deps.inference),
    ...responsesRoutes(deps.responses),
    ...batchRoutes(deps.batches),
    ...fileRoutes(deps.files),
    ...modelRoutes(deps.models),
    ...keyRoutes(deps.keys),
    ...providerKeyRoutes(deps.providerKeys),
    ...usageRoutes({ db }),
    ...receiptRoutes(deps.receipts),
    ...ledgerProofRoutes(deps.ledgerProofs),
    ...signingRoutes(deps.signingKeys),
    ...agentSessionRoutes(deps.agentSessions),
    ...webhookRoutes(deps.webhooks),
    ...activityRoutes({ db }),
    ...balanceAlertRoutes({ db }),
    ...presetRoutes({ db }),
    ...guardrailRoutes(deps.guardrails),
    ...sinkRoutes(deps.sinks),
    ...mcpServerRoutes(deps.mcpServers),
    ...billingDetailsRoutes({ db }),
    ...serviceCreditRoutes({ db }),
    ...billingRoutes(deps.billing),
    ...x402Routes(deps.billing),
    ...mppRoutes(deps.billing),
    ...payPageRoutes(deps.billing),
    ...claimRoutes(deps.claims),
    ...claimPageRoutes(deps.claimPages),
    ...deviceLoginRoutes(deps.deviceLogin),
    ...devicePageRoutes(deps.deviceLogin),
    ...(deps.appSignIn === undefined ? [] : appSignInRoutes(deps.appSignIn)),
    ...(deps.mcpSignIn === undefined ? [] : mcpSignInRoutes(deps.mcpSignIn)),
    ...peopleRoutes(deps.people),
    ...ssoRoutes(deps.sso),
    ...scimRoutes({ db, baseUrl: deps.discovery.baseUrl }),
    ...emailRoutes(deps.emails),
    ...consoleRoutes(deps.console),
    ...operatorRoutes(deps.operator),
    ...operationsRoutes(deps.operations),
    ...modelPageRoutes(deps.models, deps.discovery.baseUrl),
    ...statusPageRoutes({ readStatus: deps.readStatus, baseUrl: deps.discovery.baseUrl }),
    ...serviceLevelRoutes({
      readStatus: deps.readStatus,
      readLevels: () => listServiceLevels(db),
    }),
    ...mcpRoutes(deps.mcp, () => all),
  ];
  const all: readonly Route[] = [
    ...routes,
    ...discoveryRoutes({
      routes,
      settings: deps.discovery,
      models: deps.models,
      hasSessionCookie: deps.people.sessions.hasCookie,
    }),
  ];
  return all;
}
