// The pages of /models. To render one takes milliseconds, and anyone can ask for it: each is rendered once until the models
// change, and a network can ask for few that are new.

import { Fault } from "../../base/fault.ts";
import { MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import { createRateLimiter } from "../../http/guards/rate-limiter.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import type { Catalog } from "../../models/catalog.ts";
import type { EndpointRouteDeps } from "../../models/endpoints-route.ts";
import type { MeasuredModels } from "../../models/measured.ts";
import { type ModelRecordJson, toModelRecord } from "../../models/model-record.ts";
import { type CachedDocument, cachedDocument } from "../cached-document.ts";
import { siteHeaders } from "../site/site-frame.tsx";
import type { ModelListQuery } from "./model-list.ts";
import { modelsPage } from "./models-page.tsx";

const PAGES_MAX = 200;
/** Prices and the availability of providers may change by the clock. */
const FRESH_MS = MINUTE_MS;
const NEW_PAGES_PER_MINUTE = 60;
const NEW_PAGES_BURST = 30;

interface ModelsSnapshot {
  readonly catalog: Catalog;
  readonly measured: MeasuredModels;
  readonly at: number;
  readonly records: readonly ModelRecordJson[];
  readonly pages: Map<string, CachedDocument>;
}

export interface ModelsPages {
  readonly records: (now: number) => Promise<readonly ModelRecordJson[]>;
  /** Throws if the network of `clientIp` has asked for too many new pages. */
  readonly page: (
    query: ModelListQuery,
    request: { readonly clientIp: string; readonly now: number },
  ) => Promise<CachedDocument>;
}

export function createModelsPages(deps: EndpointRouteDeps): ModelsPages {
  const limiter = createRateLimiter({ perMinute: NEW_PAGES_PER_MINUTE, burst: NEW_PAGES_BURST });
  let current: ModelsSnapshot | undefined;
  const snapshotAt = async (now: number): Promise<ModelsSnapshot> => {
    const measured = await deps.measured(now);
    const catalog = deps.catalog.current();
    const isFresh =
      current?.catalog === catalog &&
      current.measured === measured &&
      Math.abs(now - current.at) < FRESH_MS;
    if (current === undefined || !isFresh)
      current = {
        catalog,
        measured,
        at: now,
        records: recordsOf(deps, now, measured),
        pages: new Map(),
      };
    return current;
  };
  return {
    records: async (now) => (await snapshotAt(now)).records,
    page: async (query, { clientIp, now }) => {
      const { pages, records } = await snapshotAt(now);
      const name = JSON.stringify(query);
      const cached = pages.get(name);
      if (cached !== undefined) return cached;
      // The page that everybody opens is never refused.
      if (name !== "{}") limitNewPages(limiter.take(networksOf(clientIp)[0], now));
      const rendered = cachedDocument(
        modelsPage(records, query, deps.providerName),
        "text/html; charset=utf-8",
        {
          ...siteHeaders(),
          "cache-control": "no-cache",
        },
      );
      if (pages.size >= PAGES_MAX) pages.clear();
      pages.set(name, rendered);
      return rendered;
    },
  };
}

function recordsOf(
  { catalog, isAvailable }: EndpointRouteDeps,
  now: number,
  measured: MeasuredModels,
): readonly ModelRecordJson[] {
  return catalog
    .current()
    .models.filter(({ retired }) => !retired)
    .map((model) => toModelRecord(model, isAvailable(model.provider), now, measured(model)));
}

function limitNewPages(waitMs: number): void {
  if (waitMs > 0)
    throw new Fault("rate_limited", "too many new pages of models", {
      message: "Your network has searched the models too often. GET /v1/models lists them as JSON.",
      retryAfterSeconds: waitMs / SECOND_MS,
    });
}
