// The table of contents: every room's routes, in the order in which the documents list them.

import { type AccountRouteDeps, accountRoutes } from "../accounts/routes.ts";
import { auditRoutes } from "../audit/routes.ts";
import { type PayPageDeps, payPageRoutes } from "../billing/invoices/pay-page-routes.ts";
import { type BillingRouteDeps, billingRoutes } from "../billing/invoices/routes.ts";
import { budgetRoutes } from "../budgets/routes.ts";
import { type X402RouteDeps, x402Routes } from "../billing/x402/routes.ts";
import { type ClaimPageDeps, claimPageRoutes } from "../claims/claim-page-routes.ts";
import { type ClaimRouteDeps, claimRoutes } from "../claims/routes.ts";
import { type ConsoleRouteDeps, consoleRoutes } from "../console/routes.ts";
import { discoveryRoutes } from "../discovery/routes.tsx";
import type { DiscoverySettings } from "../discovery/discovery-settings.ts";
import { type WebhookRouteDeps, webhookRoutes } from "../webhooks/routes.ts";
import type { Route } from "../http/route.ts";
import { type InferenceRouteDeps, inferenceRoutes } from "../inference/api/routes.ts";
import { type KeyRouteDeps, keyRoutes } from "../keys/routes.ts";
import { type ModelRoutesDeps, modelRoutes } from "../models/routes.ts";
import { type OperationsDeps, operationsRoutes } from "../operations/routes.ts";
import { type OperatorRouteDeps, operatorRoutes } from "../operator/routes.ts";
import { type PeopleRouteDeps, peopleRoutes } from "../people/routes.ts";
import { type ProviderKeyRouteDeps, providerKeyRoutes } from "../provider-keys/routes.ts";
import { type ResponsesRouteDeps, responsesRoutes } from "../responses/routes.ts";
import { usageRoutes } from "../usage/routes.ts";

export interface RouteDeps
  extends
    AccountRouteDeps,
    OperationsDeps,
    ModelRoutesDeps,
    ProviderKeyRouteDeps,
    ResponsesRouteDeps,
    BillingRouteDeps,
    X402RouteDeps,
    PayPageDeps,
    ClaimRouteDeps,
    ClaimPageDeps,
    ConsoleRouteDeps,
    OperatorRouteDeps,
    PeopleRouteDeps,
    KeyRouteDeps,
    WebhookRouteDeps {
  readonly inference: InferenceRouteDeps;
  readonly discovery: DiscoverySettings;
}

export function allRoutes(deps: RouteDeps): readonly Route[] {
  const routes = [
    ...accountRoutes(deps),
    ...budgetRoutes(deps),
    ...inferenceRoutes(deps.inference),
    ...responsesRoutes(deps),
    ...modelRoutes(deps),
    ...keyRoutes(deps),
    ...providerKeyRoutes(deps),
    ...usageRoutes(deps),
    ...webhookRoutes(deps),
    ...auditRoutes(deps),
    ...billingRoutes(deps),
    ...x402Routes(deps),
    ...payPageRoutes(deps),
    ...claimRoutes(deps),
    ...claimPageRoutes(deps),
    ...peopleRoutes(deps),
    ...consoleRoutes(deps),
    ...operatorRoutes(deps),
    ...operationsRoutes(deps),
  ];
  return [...routes, ...discoveryRoutes({ routes, settings: deps.discovery })];
}
