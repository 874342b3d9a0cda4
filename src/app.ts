// The table of contents: every room's routes, in the order in which the documents list them.

import { type AccountRouteParts, accountRoutes } from "./accounts/routes.ts";
import { auditRoutes } from "./audit/routes.ts";
import { type PayPageParts, payPageRoutes } from "./billing/page-routes.ts";
import { type BillingRouteParts, billingRoutes } from "./billing/routes.ts";
import { budgetRoutes } from "./budgets/routes.ts";
import { type X402RouteParts, x402Routes } from "./billing/x402-routes.ts";
import { type ClaimPageParts, claimPageRoutes } from "./claims/page-routes.ts";
import { type ClaimRouteParts, claimRoutes } from "./claims/routes.ts";
import { type ConsoleRouteParts, consoleRoutes } from "./console/routes.ts";
import { discoveryRoutes } from "./discovery/routes.tsx";
import type { DiscoverySettings } from "./discovery/settings.ts";
import { type WebhookRouteParts, webhookRoutes } from "./events/routes.ts";
import type { Route } from "./http/route.ts";
import { type InferenceRouteParts, inferenceRoutes } from "./inference/routes.ts";
import { type KeyRouteParts, keyRoutes } from "./keys/routes.ts";
import { type ModelRoutesParts, modelRoutes } from "./models/routes.ts";
import { type OperationsParts, operationsRoutes } from "./operations/routes.ts";
import { type OperatorRouteParts, operatorRoutes } from "./operator/routes.ts";
import { type PeopleRouteParts, peopleRoutes } from "./people/routes.ts";
import { type ProviderKeyRouteParts, providerKeyRoutes } from "./provider-keys/routes.ts";
import { type ResponsesRouteParts, responsesRoutes } from "./responses/routes.ts";
import { usageRoutes } from "./usage/routes.ts";

export interface AppParts
  extends
    AccountRouteParts,
    OperationsParts,
    ModelRoutesParts,
    ProviderKeyRouteParts,
    ResponsesRouteParts,
    BillingRouteParts,
    X402RouteParts,
    PayPageParts,
    ClaimRouteParts,
    ClaimPageParts,
    ConsoleRouteParts,
    OperatorRouteParts,
    PeopleRouteParts,
    KeyRouteParts,
    WebhookRouteParts {
  readonly inference: InferenceRouteParts;
  readonly discovery: DiscoverySettings;
}

export function createRoutes(parts: AppParts): readonly Route[] {
  const routes = [
    ...accountRoutes(parts),
    ...budgetRoutes(parts),
    ...inferenceRoutes(parts.inference),
    ...responsesRoutes(parts),
    ...modelRoutes(parts),
    ...keyRoutes(parts),
    ...providerKeyRoutes(parts),
    ...usageRoutes(parts),
    ...webhookRoutes(parts),
    ...auditRoutes(parts),
    ...billingRoutes(parts),
    ...x402Routes(parts),
    ...payPageRoutes(parts),
    ...claimRoutes(parts),
    ...claimPageRoutes(parts),
    ...peopleRoutes(parts),
    ...consoleRoutes(parts),
    ...operatorRoutes(parts),
    ...operationsRoutes(parts),
  ];
  return [...routes, ...discoveryRoutes({ routes, settings: parts.discovery })];
}
