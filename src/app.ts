// The table of contents: every room's routes, in the order in which the documents list them.

import type { Route } from "./http/route.ts";
import { type AccountRouteParts, accountRoutes } from "./accounts/routes.ts";
import { keyRoutes } from "./keys/routes.ts";
import { type OperationsParts, operationsRoutes } from "./operations/routes.ts";
import { usageRoutes } from "./usage/routes.ts";

export interface AppParts extends AccountRouteParts, OperationsParts {}

export function createRoutes(parts: AppParts): readonly Route[] {
  return [
    ...accountRoutes(parts),
    ...keyRoutes(parts),
    ...usageRoutes(parts),
    ...operationsRoutes(parts),
  ];
}
